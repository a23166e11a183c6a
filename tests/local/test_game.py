"""The game against cooper-like arithmetic done by hand, and its limits."""

from typing import Any

import numpy as np
import pytest
import torch

from glocalfair.local.constraints import FNR, FPR
from glocalfair.local.game import Game, Players, _padded
from glocalfair.local.network import network
from glocalfair.local.trainer import Trainer, rows_of
from glocalfair.models import MLP
from glocalfair.types import Stage, TrainingSettings
from tests.local.test_trainer import ATTRIBUTES, jobs, module, trainer


def player(game: Game) -> tuple[Players, Trainer, torch.Tensor]:
    model = module()
    ours = trainer(model)
    rows = np.arange(60)
    players = Players(
        [game], ours.network, ours.rows, [rows], [np.arange(60, 80)], np.array([10]), [np.random.default_rng(0)]
    )
    return players, ours, torch.as_tensor(rows).unsqueeze(0)


def test_violation_on_the_whole_batch_is_the_true_violation_and_moves_lambda() -> None:
    players, ours, rows = player(Game((FNR(0.1), FPR(0.1)), ATTRIBUTES, dual_lr=0.3))
    logits = torch.tensor(np.random.default_rng(2).normal(size=(1, 60)))
    y = ours.rows.y[rows]
    zero = torch.zeros(1, 60, dtype=torch.float64)
    slope = players.play(zero, logits, torch.sigmoid(logits), ours.rows.cells[rows])
    assert (slope == 0).all(), "λ is 0 in the first step, so the θ-player sees no constraint"
    positive, accepted = (y[0] == 1).numpy(), (logits[0] > 0).numpy()
    women = (ours.rows.members[rows[0], 1] == 1).numpy()
    fnr = np.mean(~accepted[positive])
    gap = np.mean(~accepted[positive & women]) - fnr
    assert players.compiled[0].names[0] == "fnr(sex=F) high"
    np.testing.assert_allclose(players.multiplier[0, :2], np.maximum(0, 0.3 * np.array([gap - 0.1, -gap - 0.1])))


def test_slope_is_the_gradient_of_the_proxy_lagrangian() -> None:
    for proxy in ("sigmoid", "hinge"):
        players, ours, rows = player(Game((FNR(0.05), FPR(0.05)), ATTRIBUTES, proxy=proxy))  # type: ignore[arg-type]
        multiplier = torch.tensor(np.random.default_rng(4).random(players.multiplier.shape))
        players.multiplier.copy_(multiplier)
        logits = torch.tensor(np.random.default_rng(5).normal(size=(1, 60)) * 2, requires_grad=True)
        y = ours.rows.y[rows]
        coefficient = torch.as_tensor(players.compiled[0].coefficient)
        members = ours.rows.members[rows[0]]
        each = torch.stack([coefficient[:, int(label)] @ m for label, m in zip(y[0], members, strict=True)], 1)
        if proxy == "sigmoid":
            value = (each * torch.sigmoid(logits)).sum(1)
        else:
            above, below = torch.relu(1 + logits), torch.relu(1 - logits)
            value = (each.clamp(min=0) * above + each + (-each).clamp(min=0) * below - each.clamp(min=0)).sum(1)
        (multiplier[0] * value).sum().backward()
        zero = torch.zeros(1, 60, dtype=torch.float64)
        slope = players.play(zero, logits.detach(), torch.sigmoid(logits).detach(), ours.rows.cells[rows])
        np.testing.assert_allclose(slope, logits.grad, atol=1e-12)


def test_hinge_bounds_the_true_constraint_from_above() -> None:
    players, ours, rows = player(Game((FNR(0.05), FPR(0.05)), ATTRIBUTES))
    compiled, members = players.compiled[0], ours.rows.members[rows[0]].numpy()
    y = ours.rows.y[rows[0]].numpy().astype(int)
    each = np.stack([compiled.coefficient[:, label] @ m for label, m in zip(y, members, strict=True)], 1)
    for seed in range(20):
        logits = np.random.default_rng(seed).normal(size=60) * 3
        true = (each * (logits > 0)).sum(1)
        up = np.maximum(each, 0) * np.maximum(0, 1 + logits)
        down = np.minimum(each, 0) + np.maximum(-each, 0) * np.maximum(0, 1 - logits)
        assert ((up + down).sum(1) >= true - 1e-12).all()


def test_the_unconstrained_model_is_always_a_candidate() -> None:
    """Where nothing is feasible and the dual runs wild, the model before the game has the smallest violation."""
    model = module()
    ours = trainer(model)
    wild = Game((FNR(0.0), FPR(0.0)), ATTRIBUTES, dual_lr=1e4)

    def plan(size: int, name: str) -> tuple[Stage, ...]:
        return (Stage(), Stage(game=wild))

    result = ours.train(jobs(model, plan, ["a"]), TrainingSettings(lr=0.1, epochs=2, batch_size=16))[0]
    judged = [np.nan_to_num(np.asarray(result.game["violation"]), nan=-1).max()]
    untouched = ours.train(
        jobs(model, lambda s, n: (Stage(), Stage(game=wild, epochs=0)), ["a"]),
        TrainingSettings(lr=0.1, epochs=2, batch_size=16),
    )[0]
    np.testing.assert_array_equal(untouched.weights[1], untouched.weights[0])
    assert untouched.game["iterate"] == 0
    judged.append(np.nan_to_num(np.asarray(untouched.game["violation"]), nan=-1).max())
    assert judged[0] <= judged[1], "the chosen iterate is never worse than the model before the game"


def test_equal_candidates_are_shown_rows_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients with fewer steps than candidates hold the same iterate several times."""
    model = module()
    ours = trainer(model)
    steps = np.array([6, 2, 1, 0])
    parts, held_out = np.split(np.arange(60), 4), np.split(np.arange(60, 80), 4)
    players = Players([Game((FNR(0.1),), ATTRIBUTES)] * 4, ours.network, ours.rows, parts, held_out, steps)
    theta = ours.network.layout.flatten(model).repeat(4, 1)
    extra = theta.new_empty(4, 0)
    players.start(theta, extra)
    for step in range(6):
        active = int((steps > step).sum())
        theta[:active] += torch.randn(active, theta.shape[1], generator=torch.Generator().manual_seed(step)).to(theta)
        players.observe(step, theta, extra, active)
    x, who = ours.rows.inputs(torch.arange(20)).expand(4, -1, -1), np.arange(4)
    expected = torch.stack([ours.network.logits(each, x) for each in players.thetas])
    models, logits = [], type(ours.network).logits

    def noted(self: object, flat: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        models.extend(each.numpy().tobytes() for each in flat)
        return logits(ours.network, flat, x)  # type: ignore[arg-type]

    monkeypatch.setattr(type(ours.network), "logits", noted)
    torch.testing.assert_close(torch.stack(players._shown(who, x)), expected, rtol=1e-10, atol=1e-12)
    # The model at the start, of each client; 4, 2, 1 and no iterates.
    assert len(models) == 4 + 4 + 2 + 1 and len(set(models)) == 1 + 4 + 2 + 1


def test_constraints_reduce_a_planted_gap() -> None:
    """Women are accepted less for a reason that the model can see; the game closes most of the gap."""
    rng = np.random.default_rng(0)
    n = 4000
    women = rng.integers(0, 2, n)
    skill = rng.normal(size=n)
    y = (skill - 1.0 * women + 0.5 * rng.normal(size=n) > 0).astype(int)
    x = np.stack([skill, women], 1)
    model = MLP(2, (8,)).double()
    ours = Trainer(network(model), rows_of(x, y, women[:, None], [2], torch.float64))
    weights = ours.network.layout.flatten(model).numpy()
    attributes = (ATTRIBUTES[0],)

    def gap(plan: tuple[Stage, ...]) -> float:
        from glocalfair.local.trainer import Job

        job = Job("a", weights, plan, np.arange(3000), np.arange(3000, 4000), 0, 1)
        final = ours.train([job], TrainingSettings(lr=0.1, momentum=0.9, epochs=8, batch_size=64))[0].weights[-1]
        accepted = ours.logits(final, np.arange(n)) > 0
        rate = [accepted[(women == g) & (y == 1)].mean() for g in (0, 1)]
        return abs(rate[0] - rate[1])

    free = gap((Stage(),))
    held = gap((Stage(), Stage(game=Game((FNR(0.02),), attributes, dual_lr=0.1, window=10, snapshots=10))))
    assert free > 0.1
    assert held < 0.5 * free


def test_a_game_without_constraints_is_plain_training() -> None:
    players, ours, rows = player(Game((), ATTRIBUTES))
    slope = torch.randn(1, 60, dtype=torch.float64)
    logits = torch.randn(1, 60, dtype=torch.float64)
    played = players.play(slope.clone(), logits, torch.sigmoid(logits), ours.rows.cells[rows])
    torch.testing.assert_close(played, slope)


def test_held_out_rows_lie_beside_those_of_clients_with_about_as_many() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, 1000, n) for n in (3, 90, 1, 40, 100, 2, 39, 55)]
    parts = _padded(rows)
    assert sorted(np.concatenate([who for who, _, _ in parts]).tolist()) == list(range(len(rows)))
    for who, numbers, weight in parts:
        for k, own, share in zip(who, numbers, weight, strict=True):
            n = len(rows[k])
            assert 2 * n > len(own)
            np.testing.assert_array_equal(own, [*rows[k], *[rows[k][0]] * (len(own) - n)])
            np.testing.assert_array_equal(share, [1 / n] * n + [0.0] * (len(own) - n))


def test_counts_are_made_in_main_memory_wherever_tensors_go() -> None:
    """As on a GPU, of which the tests have none: tensors made in between land elsewhere."""
    players, _, _ = player(Game((FNR(0.1),), ATTRIBUTES))
    here = players._compile([np.arange(60)])[0]
    with torch.device("meta"):
        there = players._compile([np.arange(60)])[0]
    np.testing.assert_array_equal(here.coefficient, there.coefficient)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(4))
def test_rounding_does_not_choose_the_iterate(dtype: torch.dtype, seed: int) -> None:
    """On a client with one group a constraint on deviations holds exactly, whatever the model: the lowest loss wins."""
    rng = np.random.default_rng(seed)
    x, y, one = rng.normal(size=(300, 7)), rng.integers(0, 2, 300), np.zeros((300, 2), dtype=int)
    model = module().to(dtype)
    ours = Trainer(network(model), rows_of(x, y, one, [2, 3], dtype))

    def chosen(tolerance: float) -> list[Any]:
        game = Game((FNR(0.0), FPR(0.0)), ATTRIBUTES, tolerance=tolerance)
        work = jobs(model, lambda size, name: (Stage(), Stage(game=game)))
        return [trained.game["iterate"] for trained in ours.train(work, TrainingSettings(lr=0.5, batch_size=8))]

    assert chosen(0.0) == chosen(1.0)


@pytest.mark.parametrize("window", [1, 2, 50])
def test_the_dual_sees_a_mean_of_violations(window: int) -> None:
    """Tables are averaged; the mean of the violations of all steps so far, worked out one by one, is the same."""
    players, ours, rows = player(Game((FNR(0.02), FPR(0.1)), ATTRIBUTES, dual_lr=0.3, window=window))
    compiled, cells = players.compiled[0], ours.rows.cells[rows]
    forget, mean, expected = 1 - 2 / (window + 1), 0.0, np.zeros(len(compiled.names))
    for step in range(1, 6):
        logits = torch.tensor(np.random.default_rng(step).normal(size=(1, 60)))
        players.play(torch.zeros(1, 60, dtype=torch.float64), logits, torch.sigmoid(logits), cells)
        table = (cells[0] * (logits[0] > 0).unsqueeze(1)).sum(0).view(2, -1).numpy()
        mean = forget * mean + (1 - forget) * np.nan_to_num(compiled.violation(table), nan=0.0)
        expected = np.maximum(0, expected + 0.3 * mean / (1 - forget**step))
    known = compiled.defined
    np.testing.assert_allclose(players.multiplier[0].numpy()[known], expected[known], rtol=1e-10, atol=1e-14)


def test_a_limit_on_coefficients_holds_for_each_row_and_padding_gets_nothing() -> None:
    players, ours, rows = player(Game((FNR(0.0), FPR(0.0)), ATTRIBUTES, clip=0.5))
    players.multiplier.copy_(torch.tensor(np.random.default_rng(4).random(players.multiplier.shape)) * 3)
    logits = torch.tensor(np.random.default_rng(5).normal(size=(1, 60)))
    scale = torch.where(torch.arange(60) < 50, 60 / 50, 0.0).double().unsqueeze(0)
    cells = ours.rows.cells[rows]
    tilt = (players.multiplier[0] @ players.coefficient[0]) @ cells[0].T
    limit, p = 0.5 / 60, torch.sigmoid(logits)
    assert (tilt.abs() > limit).any() and (tilt.abs() < limit).any()
    expected = scale * tilt.clamp(-limit, limit) * p * (1 - p)
    zero = torch.zeros(1, 60, dtype=torch.float64)
    slope = players.play(zero, logits, p, cells * scale.unsqueeze(2))
    torch.testing.assert_close(slope, expected, rtol=1e-12, atol=1e-15)
    assert (slope[0, 50:] == 0).all()


def test_cells_come_in_pieces_or_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = module()
    game = Game((FNR(0.0), FPR(0.0)), ATTRIBUTES, dual_lr=1.0)
    work = jobs(model, lambda size, name: (Stage(), Stage(game=game)))
    settings = TrainingSettings(lr=0.3, epochs=3, batch_size=16)
    whole = trainer(model).train(work, settings)
    monkeypatch.setattr("glocalfair.local.stage.KEPT", 16 * 12 * 4 * 2)  # two steps of four clients
    monkeypatch.setattr(Trainer, "_group_size", lambda *_: 4)
    for one, other in zip(whole, trainer(model).train(work, settings), strict=True):
        np.testing.assert_array_equal(one.weights[-1], other.weights[-1])
