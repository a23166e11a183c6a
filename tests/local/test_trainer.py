from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from glocalfair.local.constraints import FNR, FPR
from glocalfair.local.game import Game
from glocalfair.local.network import ModuleNetwork, network
from glocalfair.local.trainer import Job, Rows, Trainer, rows_of
from glocalfair.models import MLP
from glocalfair.rng import generator
from glocalfair.types import Attribute, LocalPlan, Stage, Trained, TrainingSettings

ATTRIBUTES = (Attribute("sex", ("F", "M")), Attribute("race", ("A", "B", "C")))
SIZES = {"a": 70, "b": 33, "c": 5, "d": 1}
SETTINGS = TrainingSettings(lr=0.1, momentum=0.9, epochs=2, batch_size=16)


class Odd(nn.Module):
    """A module that is no MLP, to take the generic path."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(inputs, 6), nn.Linear(6, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)))


def module(kind: type[nn.Module] = MLP) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind(7).double()


def trainer(model: nn.Module, **options: object) -> Trainer:
    rng = np.random.default_rng(1)
    n = 200
    x = rng.normal(size=(n, 7))
    y = (x[:, 0] + rng.normal(size=n) > 0).astype(int)
    groups = np.stack([rng.integers(0, 2, n), rng.integers(0, 3, n)], 1)
    return Trainer(network(model), rows_of(x, y, groups, [2, 3], torch.float64), **options)  # type: ignore[arg-type]


def jobs(model: nn.Module, plan_of, names=SIZES) -> list[Job]:  # type: ignore[no-untyped-def]
    from glocalfair.layout import Layout

    weights = Layout.of(model).flatten(model).numpy()
    start, result = 0, []
    for name, size in SIZES.items():
        rows = np.arange(start, start + size)
        start += size
        if name in names:
            held = np.arange(start, start + 10)
            result.append(Job(name, weights, plan_of(size, name), rows, held, seed=3, round=2))
        start += 10
    return result


def plain(size: int, name: str) -> LocalPlan:
    return (Stage(),)


def weighted(size: int, name: str) -> LocalPlan:
    rng = generator(0, name)
    return (
        Stage(sample_weight=rng.random(size), probability_coefficient=rng.normal(size=size), lr_scale=rng.random()),
    )


def two_stages(size: int, name: str) -> LocalPlan:
    return (Stage(), Stage(start="received", proximal=0.5, epochs=1))


def game(**options: object):  # type: ignore[no-untyped-def]
    def plan(size: int, name: str) -> LocalPlan:
        own = {"b": (FNR(0.02),), "c": (FNR(0.3, "absolute"), FPR(0.01))}
        constraints = own.get(name, (FNR(0.02), FPR(0.01)))
        return (Stage(), Stage(game=Game(constraints, ATTRIBUTES, **options)))  # type: ignore[arg-type]

    return plan


PLANS = {
    "plain": plain,
    "weighted": weighted,
    "two stages": two_stages,
    "lagrangian": game(),
    "clipped, shrunk": game(shrinkage=5.0, clip=1.0, references={"fnr": 0.3, "fpr": 0.2}),
    "hinge, radii": game(proxy="hinge", theta_radius=3.0, dual_radius=1.0),
    "proxy-lagrangian": game(solver="proxy_lagrangian", iterate="tfco"),
    "additive, random iterate": game(solver="proxy_lagrangian", update="additive", iterate="random"),
}


def assert_equal(first: list[Trained], second: list[Trained], tolerance: float) -> None:
    for a, b in zip(first, second, strict=True):
        assert a.steps == b.steps
        for v, w in zip(a.weights, b.weights, strict=True):
            np.testing.assert_allclose(v, w, atol=tolerance, rtol=0)


@pytest.mark.parametrize("kind", [MLP, Odd])
@pytest.mark.parametrize("name", PLANS)
def test_batched_equals_sequential(name: str, kind: type[nn.Module]) -> None:
    model = module(kind)
    work = jobs(model, PLANS[name])
    together = trainer(model, cohort=64).train(work, SETTINGS)
    alone = trainer(model, cohort=1).train(work, SETTINGS)
    assert_equal(together, alone, 1e-10)


@pytest.mark.parametrize("name", PLANS)
def test_fused_mlp_equals_any_module(name: str) -> None:
    model = module()
    work = jobs(model, PLANS[name])
    fused = trainer(model)
    generic = Trainer(ModuleNetwork(model), fused.rows)
    assert_equal(fused.train(work, SETTINGS), generic.train(work, SETTINGS), 1e-10)


@pytest.mark.parametrize("kind", [MLP, Odd])
@pytest.mark.parametrize("name", PLANS)
def test_order_and_workers_change_nothing(name: str, kind: type[nn.Module]) -> None:
    model = module(kind)
    work = jobs(model, PLANS[name])
    forward = trainer(model, cohort=2).train(work, SETTINGS)
    backward = trainer(model, cohort=2, workers=3).train(work[::-1], SETTINGS)[::-1]
    assert_equal(forward, backward, 0)


@pytest.mark.parametrize(
    "settings",
    [
        SETTINGS,
        TrainingSettings(lr=0.05, momentum=0.0, epochs=1, batch_size=8, weight_decay=0.1),
        TrainingSettings(optimizer="adam", lr=0.01, epochs=3, batch_size=32, weight_decay=0.01),
    ],
    ids=["momentum", "plain sgd with decay", "adam"],
)
def test_equals_a_loop_written_with_torch_optim(settings: TrainingSettings) -> None:
    """The oracle: an ordinary PyTorch loop over the same batches."""
    model = module()
    ours = trainer(model)
    job = jobs(model, weighted, ["b"])[0]
    stage = job.plan[0]
    assert stage.sample_weight is not None and stage.probability_coefficient is not None
    result = ours.train([job], settings)[0]

    oracle = module()
    lr = settings.lr * stage.lr_scale
    optimiser: torch.optim.Optimizer
    if settings.optimizer == "adam":
        optimiser = torch.optim.Adam(oracle.parameters(), lr, weight_decay=settings.weight_decay)
    else:
        optimiser = torch.optim.SGD(oracle.parameters(), lr, settings.momentum, weight_decay=settings.weight_decay)
    order = generator(job.seed, job.round, job.client, "batches", 0)
    for _ in range(settings.epochs):
        shuffled = order.permutation(len(job.train))
        for start in range(0, len(shuffled), settings.batch_size):
            batch = shuffled[start : start + settings.batch_size]
            rows = torch.as_tensor(job.train[batch])
            logits = oracle(ours.rows.x[rows])
            loss = nn.functional.binary_cross_entropy_with_logits(logits, ours.rows.y[rows], reduction="none")
            loss = loss * torch.as_tensor(stage.sample_weight[batch])
            loss = loss + torch.as_tensor(stage.probability_coefficient[batch]) * torch.sigmoid(logits)
            optimiser.zero_grad()
            loss.mean().backward()
            optimiser.step()
    expected = torch.cat([p.detach().reshape(-1) for p in oracle.parameters()]).numpy()
    np.testing.assert_allclose(result.weights[-1], expected, atol=1e-12)


def test_proximal_term_by_hand() -> None:
    """One full-batch step from elsewhere: w ← v − η (∇F(v) + μ (v − w_received))."""
    model = module()
    ours = trainer(model)
    job = jobs(model, plain, ["c"])[0]
    settings = TrainingSettings(lr=0.1, momentum=0.0, epochs=1, batch_size=64)
    elsewhere = job.weights + 0.3
    free = job._replace(plan=(Stage(start=elsewhere),))
    held = job._replace(plan=(Stage(start=elsewhere, proximal=2.0),))
    without, with_term = (ours.train([j], settings)[0].weights[0] for j in (free, held))
    np.testing.assert_allclose(with_term, without - 0.1 * 2.0 * 0.3, atol=1e-12)


def test_class_weights() -> None:
    model = module()
    job = jobs(model, plain, ["a"])[0]
    y = trainer(model).rows.y[torch.as_tensor(job.train)].numpy().astype(int)
    counts = np.bincount(y)
    explicit = job._replace(plan=(Stage(sample_weight=(len(y) / (2 * counts))[y]),))
    balanced = trainer(model, class_weight="balanced").train([job], SETTINGS)
    assert_equal(balanced, trainer(model).train([explicit], SETTINGS), 1e-12)
    given = trainer(model, class_weight=(1.0, 3.0)).train([job], SETTINGS)
    explicit = job._replace(plan=(Stage(sample_weight=np.array([1.0, 3.0])[y]),))
    assert_equal(given, trainer(model).train([explicit], SETTINGS), 1e-12)


def test_models_with_state_of_their_own_are_trained_alone() -> None:
    normed = nn.Sequential(nn.Linear(7, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1)).double()
    net = network(normed)
    assert net.layout.size == net.layout.trainable + 8
    ours = trainer(normed)
    assert not ours.together
    result = ours.train(jobs(normed, plain, ["a", "b"]), SETTINGS)
    statistics = result[0].weights[-1][net.layout.trainable :]
    assert not np.allclose(statistics, jobs(normed, plain)[0].weights[net.layout.trainable :])
    assert np.isfinite(result[0].weights[-1]).all()


def test_a_client_with_broken_rows_does_not_reach_its_cohort() -> None:
    model = module()
    work = jobs(model, plain)
    rows = trainer(model).rows
    largest = max(work, key=lambda job: len(job.train))
    broken = rows.x.clone()
    broken[torch.as_tensor(largest.train)] = float("nan")
    found = Trainer(trainer(model).network, replace(rows, x=broken)).train(work, SETTINGS)
    for job, trained in zip(work, found, strict=True):
        assert np.isfinite(trained.weights[0]).all() == (job is not largest)


class Writing(Odd):
    """A module that changes what it is shown."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.mul_(0.5))


@pytest.mark.parametrize("kind", [MLP, Odd, Writing])
def test_rows_side_by_side_are_evaluated_like_others_and_stay_as_they_are(kind: type[nn.Module]) -> None:
    model = module(kind)
    ours, weights = trainer(model, chunk=16), jobs(model, plain)[0].weights
    before, rows = ours.rows.x.clone(), np.arange(20, 90)
    shuffled = np.random.default_rng(0).permutation(rows)
    straight, gathered = ours.logits(weights, rows), ours.logits(weights, shuffled)
    np.testing.assert_allclose(straight[shuffled - 20], gathered, rtol=1e-12)
    assert torch.equal(ours.rows.x, before)


@pytest.mark.parametrize(
    ("kind", "shape", "expected"),
    [(MLP, (100,), 8192), (MLP, (300,), 3495), (MLP, (9000,), 2048), (Odd, (100,), 2048), (Odd, (3, 8, 8), 64)],
)
def test_what_is_evaluated_at_a_time_stays_small(
    kind: type[nn.Module], shape: tuple[int, ...], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, seen, count = network(kind(7)), [], 9000
    rows = Rows(torch.zeros(1).expand(count, *shape), torch.zeros(count), torch.ones(count, 1))

    def logits(flat: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        seen.append(x.shape[1])
        return torch.zeros(1, x.shape[1])

    monkeypatch.setattr(net, "logits", logits)
    Trainer(net, rows).logits(np.zeros(net.layout.size), np.arange(count))
    whole, rest = divmod(count, expected)
    assert seen == [expected] * whole + [rest]


@pytest.mark.parametrize(
    ("rows", "copied"), [([3, 4, 5, 6], False), ([7], False), ([], True), ([3, 5, 4, 6], True), ([3, 3, 5, 6], True)]
)
def test_only_rows_side_by_side_are_not_copied(rows: list[int], copied: bool) -> None:
    held = trainer(module()).rows
    shown = held.shown(np.array(rows, dtype=np.int64))
    assert torch.equal(shown, held.x[rows])
    inside = held.x.data_ptr() <= shown.data_ptr() < held.x.data_ptr() + held.x.nbytes
    assert inside == (not copied)


def test_where_rows_begin_in_memory_changes_no_bit() -> None:
    """The last bits of a product may depend on it, so that rows are moved if need be."""
    model = module().float()
    rng = np.random.default_rng(0)
    y, room = rng.integers(0, 2, 300), np.empty(300 * 7 + 16, dtype=np.float32)
    values, weights = rng.normal(size=(300, 7)), rng.normal(size=801).astype(np.float32)
    found = []
    for begin in range(5):
        x = room[begin : begin + 2100].reshape(300, 7)
        x[:] = values
        ours = Trainer(network(model), rows_of(x, y, np.zeros((300, 1), int), [1], torch.float32))
        found.append(ours.logits(weights, np.arange(33, 290)))
    assert all(np.array_equal(found[0], each) for each in found)
    assert ours.rows.x.data_ptr() % 64 == 0


@pytest.mark.parametrize("rows", [[198, 199, 200], [200], [-1], [-1, 0]])
def test_rows_that_do_not_exist_are_an_error(rows: list[int]) -> None:
    ours = trainer(module())
    with pytest.raises(IndexError):
        ours.logits(jobs(module(), plain)[0].weights, np.array(rows))


def test_pictures_are_not_copied_wherever_they_begin() -> None:
    room = np.zeros(2 * 3 * 4 * 4 + 1, dtype=np.float32)
    for begin in (0, 1):
        x = room[begin : begin + 96].reshape(2, 3, 4, 4)
        held = rows_of(x, np.zeros(2, int), np.zeros((2, 1), int), [1], torch.float32)
        assert held.x.data_ptr() == x.ctypes.data


@pytest.mark.parametrize("hidden", [(), (5,), (6, 4)])
def test_one_model_is_evaluated_like_one_of_two(hidden: tuple[int, ...]) -> None:
    model = MLP(7, hidden).double()
    net, x = network(model), torch.randn(1, 50, 7, dtype=torch.float64)
    flat = torch.randn(2, net.layout.size, dtype=torch.float64)
    both = net.logits(flat, x.expand(2, -1, -1))
    for k in range(2):
        torch.testing.assert_close(net.logits(flat[k : k + 1], x)[0], both[k], rtol=1e-12, atol=1e-12)
