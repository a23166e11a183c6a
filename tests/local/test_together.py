"""Which modules of the user's own are trained for many clients at once, and that all of them train."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from glocalfair.errors import GlocalfairError
from glocalfair.local.dropout import Drop, drawn
from glocalfair.local.network import ModuleNetwork
from glocalfair.local.trainer import Trainer
from glocalfair.rng import generator
from glocalfair.types import Trained

from .test_trainer import PLANS, SETTINGS, assert_equal, jobs, plain, trainer


class Own(nn.Module):
    """Two layers with something in between."""

    def __init__(self, between: nn.Module | None = None) -> None:
        super().__init__()
        self.first, self.between, self.head = nn.Linear(7, 6), between or nn.Identity(), nn.Linear(6, 1)

    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return self.between(torch.tanh(self.first(x)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.hidden(x)).squeeze(-1)


class Functional(Own):
    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(super().hidden(F.dropout(x, training=self.training)), 0.2, self.training).reshape(len(x), -1)


class InPlace(Own):
    """Throws the result away, and goes on with what was changed."""

    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        F.dropout(h, 0.3, self.training, inplace=True)
        return torch.tanh(h)


class Scaled(Own):
    """Has constants in a buffer."""

    def __init__(self) -> None:
        super().__init__(nn.Dropout(0.3))
        self.register_buffer("mean", torch.arange(7.0))

    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return super().hidden(x - self.mean)


class Attention(nn.Module):
    """One operation of it is done client by client, and drops by itself, where no mask can be given."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(1, 4), nn.Linear(4, 1)
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, dropout, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.embed(x.unsqueeze(-1))).mean(1)).squeeze(-1)


class Series(nn.Module):
    """Takes a row for a series, and may drop in between."""

    def __init__(self, *between: nn.Module) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, 3, 3), *between, nn.Tanh(), nn.Conv1d(3, 2, 2, stride=2), nn.Flatten())
        self.head = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.net(x.unsqueeze(1))).squeeze(-1)


class Undecided(Own):
    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return super().hidden(x) if x.sum() > 0 else super().hidden(-x)


class Noisy(Own):
    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return super().hidden(x + 0.1 * torch.randn_like(x) if self.training else x)


class AlwaysDrops(Own):
    """Drops when it is evaluated, too."""

    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(super().hidden(x))


class AcrossRows(Own):
    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return super().hidden(x - x.mean(0))


class SequenceFirst(Own):
    """Its masks are not those of rows."""

    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(super().hidden(x).T, 0.2, self.training).T


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.head = nn.LSTM(1, 3, batch_first=True), nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(x.unsqueeze(-1))[0][:, -1]).squeeze(-1)


class WritesInput(Own):
    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        x[:, 0] = 2 * x[:, 0]
        return super().hidden(x)


class Frozen(Own):
    """A first layer from elsewhere that stays as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.first.requires_grad_(False)


class Padded(nn.Module):
    """`vmap` would train the vector that padding has, which is to stay."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(4, 3, padding_idx=1), nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.table((2 * x[:, 0]).long().clamp(0, 3))).squeeze(-1)


class Clipped(Own):
    """Clips a gradient by the norm of all rows' together."""

    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        h = super().hidden(x)
        if h.requires_grad:
            h.register_hook(lambda gradient: gradient / (1 + gradient.norm()))
        return h


class Remembers(Own):
    """Keeps a tensor that is no buffer."""

    mean: torch.Tensor | float = 0.0

    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        h = super().hidden(x)
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * h.detach().mean(0)
        return h


class Warms(Own):
    """Begins to drop after some steps."""

    calls = 0

    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += self.training
        return F.dropout(super().hidden(x), 0.5, self.training and self.calls > 5)


class Recomputed(Own):
    """Runs its layers again for the gradient, with masks of another time."""

    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda x: F.dropout(super(Recomputed, self).hidden(x), 0.3, self.training), x,
                          use_reentrant=False)  # type: ignore[no-any-return]  # fmt: skip


def silent_at_first() -> nn.Module:
    """At the start no row can be seen to depend on another."""
    module = AcrossRows()
    nn.init.zeros_(module.head.weight)
    return module


TOGETHER = {
    "layers": Own,
    "dropout": lambda: Own(nn.Dropout(0.3)),
    "in place": InPlace,
    "nothing is left": lambda: Own(nn.Dropout(1.0)),
    "nothing is dropped": lambda: Own(nn.Dropout(0.0)),
    "function": Functional,
    "constants": Scaled,
    "attention": lambda: Attention(0.0),
    "writes into its input": WritesInput,
    "frozen layer": Frozen,
    "norm of a row": lambda: Own(nn.LayerNorm(6)),
    "series": Series,
    "series with dropout": lambda: Series(nn.Dropout(0.3)),
}
ALONE = {
    "attention that drops": lambda: Attention(0.1),
    "decides": Undecided,
    "noise": Noisy,
    "always drops": AlwaysDrops,
    "across rows": AcrossRows,
    "masks of something else": SequenceFirst,
    "LSTM": Recurrent,
    "another dropout": lambda: Own(nn.AlphaDropout(0.2)),
    "a vector for padding": Padded,
    "gradient clipped by a hook": Clipped,
    "keeps a tensor": Remembers,
    "counts": Warms,
    "recomputes": Recomputed,
    "across rows, not at first": silent_at_first,
    "batch norm": lambda: Own(nn.BatchNorm1d(6)),
    "series with batch norm": lambda: Series(nn.BatchNorm1d(3)),
}


def made(name: str) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module: nn.Module = {**TOGETHER, **ALONE}[name]().double()
        return module


def trained(name: str, plan: str, **options: object) -> tuple[Trainer, list[Trained]]:
    model = made(name)
    ours = trainer(model, **options)
    return ours, ours.train(jobs(model, PLANS[plan]), SETTINGS)


@pytest.mark.parametrize("plan", ["plain", "weighted", "clipped, shrunk"])
@pytest.mark.parametrize("name", [*TOGETHER, *ALONE])
def test_a_client_is_trained_alike_in_any_company(name: str, plan: str) -> None:
    ours, together = trained(name, plan)
    assert ours.together == (name in TOGETHER)
    assert_equal(together, trained(name, plan, cohort=1)[1], 1e-10)
    assert_equal(together, trained(name, plan, cohort=2, workers=3)[1], 1e-10)
    assert all(np.isfinite(weights).all() for each in together for weights in each.weights)


@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize("tried", [False, True])
def test_several_models_are_shown_the_same_rows(tried: bool, clients: int) -> None:
    ours = trainer(made("writes into its input"))
    assert not tried or ours.together
    x = ours.rows.inputs(torch.arange(5 * clients)).view(clients, 5, 7)
    flat = torch.as_tensor(jobs(made("layers"), plain, ["a"])[0].weights).expand(clients, -1)
    first, second = (ours.network.logits(flat, x) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(x.flatten(0, 1), ours.rows.x[: 5 * clients])


RANDOM = {
    *("dropout", "in place", "function", "constants", "attention that drops", "noise", "always drops"),
    *("masks of something else", "another dropout", "counts", "recomputes", "series with dropout"),
}


@pytest.mark.parametrize("name", [name for name in (*TOGETHER, *ALONE) if name not in RANDOM])
def test_equals_a_loop_written_with_torch(name: str) -> None:
    model = made(name)
    ours = trainer(model)
    work = jobs(model, plain, ["a", "b", "c"])
    found = ours.train(work, SETTINGS)[0].weights[0]
    oracle = made(name)
    optimiser = torch.optim.SGD([p for p in oracle.parameters() if p.requires_grad], SETTINGS.lr, SETTINGS.momentum)
    order = generator(work[0].seed, work[0].round, "a", "batches", 0)
    for _ in range(SETTINGS.epochs):
        for batch in torch.as_tensor(work[0].train[order.permutation(70)]).split(SETTINGS.batch_size):
            logits = oracle(ours.rows.x[batch]).flatten()
            optimiser.zero_grad()
            F.binary_cross_entropy_with_logits(logits, ours.rows.y[batch]).backward()
            optimiser.step()
    assert (found != work[0].weights).any() or name == "nothing is left"
    np.testing.assert_allclose(found, ours.network.layout.flatten(oracle).numpy(), atol=1e-10)


def test_dropout_that_changes_unseen_is_said() -> None:
    model = made("dropout")
    ours = trainer(model)
    assert ours.together
    [masks] = drawn(ours.network.drops, [np.random.default_rng(0)], [[(0, 5)]], 1, 5)
    ours.network.own_module.between.p = 0.7
    theta = torch.as_tensor(jobs(model, plain)[0].weights)[None]
    with pytest.raises(GlocalfairError, match="drops otherwise than when it was tried"):
        ours.network.forward(theta, theta[:, :0], ours.rows.x[None, :5], masks.double()[None])


def test_what_a_step_keeps_limits_how_many_train_together() -> None:
    model = nn.Sequential(nn.Linear(7, 30_000), nn.ReLU(), nn.Linear(30_000, 1)).double()
    ours = trainer(model)
    work = jobs(model, plain)
    assert [len(job.train) for job in work] == [70, 33, 5, 1]
    assert ours._groups(work, 16) == [[0, 1, 2, 3]]
    assert ours._groups(work, 10**6) == [[0], [1, 2, 3]]


def test_padding_does_not_enter_a_batchs_statistics() -> None:
    model = Own(nn.BatchNorm1d(6, track_running_stats=False)).double()
    ours = trainer(model)
    assert not ours.together
    both = ours.train(jobs(model, plain, ["a", "c"]), SETTINGS)
    assert_equal(both, [ours.train(jobs(model, plain, [name]), SETTINGS)[0] for name in ("a", "c")], 0)


@pytest.mark.parametrize("name", ["dropout", "function", "constants", "noise", "always drops", "another dropout"])
def test_randomness_depends_on_seed_round_and_client(name: str) -> None:
    model = made(name)
    ours = trainer(model)
    [job] = jobs(model, plain, ["b"])
    before = torch.random.get_rng_state()
    first = ours.train([job], SETTINGS)[0].weights[0]
    assert torch.equal(before, torch.random.get_rng_state())
    np.testing.assert_array_equal(first, ours.train([job], SETTINGS)[0].weights[0])
    for other in (job._replace(seed=9), job._replace(round=9)):
        assert (first != ours.train([other], SETTINGS)[0].weights[0]).any()


@pytest.mark.parametrize("name", ["dropout", "function", "in place"])
def test_masks_go_where_torch_would_have_drawn_them(name: str) -> None:
    """One step by hand, with `F.dropout` replaced by the masks that were given."""
    module = made(name)
    network = ModuleNetwork(module)
    x = torch.randn(3, 20, 7, dtype=torch.float64)
    assert network.together(x[0])
    rngs = [np.random.default_rng(k) for k in range(3)]
    masks = [m.double() for m in drawn(network.drops, rngs, [[(k, 20)] for k in range(3)], 3, 20)]
    theta = torch.randn(3, network.layout.size, dtype=torch.float64)
    with torch.no_grad():
        logits, pullback = network.forward(theta, theta[:, :0], x, *masks)
        gradient = pullback(torch.ones_like(logits))
    for k in range(3):
        leaf = theta[k].clone().requires_grad_()
        w = network.layout.views(leaf)
        own = [mask[k] for mask in masks]
        h = x[k] * own.pop(0) if name == "function" else x[k]
        h = h @ w["first.weight"].T + w["first.bias"]
        h = torch.tanh(h * own[0]) if name == "in place" else torch.tanh(h) * own[0]
        expected = (h @ w["head.weight"].T + w["head.bias"])[:, 0]
        expected.sum().backward()
        torch.testing.assert_close(logits[k], expected.detach())
        torch.testing.assert_close(gradient[k], leaf.grad)


def test_masks_drop_as_often_as_they_should() -> None:
    drops = [Drop((5, 2), 0.1), Drop((), 0.75)]
    rngs = [np.random.default_rng(k) for k in range(2)]
    rows = [1000, 400]
    one, other = drawn(drops, rngs, [[(k, count)] for k, count in enumerate(rows)], 2, 1000)
    assert one.shape == (2, 1000, 5, 2) and other.shape == (2, 1000)
    assert not one[1, 400:].any() and not other[1, 400:].any()
    for mask, (_, p) in ((one, drops[0]), (other, drops[1])):
        real = torch.cat([mask[k, :count].flatten() for k, count in enumerate(rows)])
        assert real.unique().tolist() == pytest.approx([0, 1 / (1 - p)])
        assert stats.binomtest(int((real == 0).sum()), len(real), p).pvalue > 1e-3
