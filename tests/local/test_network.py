"""A module of the user's own is called with weights from outside, whatever it is made of."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from glocalfair.errors import GlocalfairError
from glocalfair.layout import Layout
from glocalfair.local import network as networks
from glocalfair.local.network import ModuleNetwork, network
from glocalfair.local.trainer import Job, Trainer, rows_of
from glocalfair.models import MLP
from glocalfair.types import Stage, TrainingSettings


class Tied(nn.Module):
    """Looks for one matrix in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 4), nn.Linear(4, 4, bias=False), nn.Linear(4, 1)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x))))).squeeze(-1)


@pytest.fixture
def often() -> Iterator[None]:
    """Let threads take turns as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def outcome(network: ModuleNetwork, theta: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.no_grad():
        logits, pullback = network.forward(theta, torch.zeros(len(theta), 0, dtype=theta.dtype), x)
        return logits, pullback(torch.ones_like(logits))


@pytest.mark.parametrize("clients", [1, 3])
def test_tied_weights_equal_functional_call(clients: int) -> None:
    torch.manual_seed(0)
    module = Tied().double()
    network = ModuleNetwork(module)
    theta = torch.randn(clients, network.layout.size, dtype=torch.float64)
    x = torch.randn(clients, 5, 4, dtype=torch.float64)
    logits, gradient = outcome(network, theta, x)
    for k in range(clients):
        leaf = theta[k].clone().requires_grad_()
        expected = torch.func.functional_call(module, network.layout.views(leaf), (x[k],))
        expected.sum().backward()
        torch.testing.assert_close(logits[k], expected.detach())
        torch.testing.assert_close(gradient[k], leaf.grad)


@pytest.mark.parametrize("hidden", [(), (3,), (6, 5), (64, 80)])
@pytest.mark.parametrize("clients", [1, 2, 11, 12, 40])
def test_products_written_by_hand_equal_autograds(clients: int, hidden: tuple[int, ...]) -> None:
    """Whoever multiplies: that depends on how many clients there are, and on how large a layer is."""
    torch.manual_seed(0)
    module, rows = MLP(4, hidden).double(), 60 if 80 in hidden else 5
    by_hand, generic = network(module), ModuleNetwork(module)
    assert by_hand.by_hand and not generic.by_hand
    theta = torch.randn(clients, by_hand.layout.size, dtype=torch.float64)
    extra, x = theta[:, :0], torch.randn(clients, rows, 4, dtype=torch.float64)
    slope = torch.randn(clients, rows, dtype=torch.float64)
    with torch.no_grad():
        found, expected = (
            (logits, pullback(slope)) for logits, pullback in (n.forward(theta, extra, x) for n in (by_hand, generic))
        )
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("rows", [0, 1, 511, 512, 5000])
@pytest.mark.parametrize("hidden", [(), (32, 16)])
@pytest.mark.parametrize("fused", [True, False])
def test_many_rows_are_shown_as_the_module_shows_them(
    rows: int, hidden: tuple[int, ...], fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With oneDNN, where this build of torch has it, and without."""
    torch.manual_seed(0)
    module, called = MLP(100, hidden), []
    within = networks._ONEDNN

    def counted(x: torch.Tensor, *arguments: Any) -> Any:
        called.append(len(x))
        return within(x, *arguments)

    monkeypatch.setattr(networks, "_ONEDNN", counted if fused and within else None)
    weights, x = Layout.of(module).flatten(module)[None], torch.randn(1, rows, 100)
    with torch.no_grad():
        found = network(module).logits(weights, x)
        # Both layers of 4,096 rows, and the first one of 512; few rows have little to gain.
        large = {512: [512], 5000: [4096, 4096, 512]}.get(rows, [])
        assert called == (large if hidden and fused and within else [])
        precise = network(module).logits(weights.double(), x.double())
        expected = module.double()(x[0].double())[None]
    assert len(called) == len(large) * bool(hidden and fused and within)  # never in float64
    torch.testing.assert_close(found, expected.float(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(precise, expected, rtol=1e-12, atol=1e-12)


def test_threads_do_not_see_each_others_weights(often: None) -> None:
    torch.manual_seed(0)
    network = ModuleNetwork(Tied())
    x = torch.randn(3, 20, 4)
    thetas = [torch.randn(3, network.layout.size) for _ in range(60)]
    alone = [outcome(network, theta, x) for theta in thetas]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda theta: outcome(network, theta, x), thetas))
    for (a, b), (c, d) in zip(alone, together, strict=True):
        assert torch.equal(a, c)
        assert torch.equal(b, d)


def test_a_part_left_in_evaluation_mode_trains_from_the_first_step_on() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.9), nn.Linear(4, 1))
    module[1].eval()
    network = ModuleNetwork(module)
    theta, x = torch.randn(1, network.layout.size), torch.randn(1, 50, 4)
    assert not torch.equal(outcome(network, theta, x)[0], network.logits(theta, x))


def test_kernels_lie_channels_last_and_come_back() -> None:
    layout = Layout.of(nn.Sequential(nn.Conv2d(3, 4, 2), nn.Conv1d(2, 2, 3)))
    weights = np.random.default_rng(0).random(layout.size)
    named = layout.named(weights)
    np.testing.assert_array_equal(layout.join(named), weights)
    np.testing.assert_array_equal(named["0.weight"].transpose(0, 2, 3, 1).ravel(), weights[:48])
    kernel = layout.views(torch.as_tensor(weights))["0.weight"]
    assert kernel.is_contiguous(memory_format=torch.channels_last)


class Crossing(nn.Module):
    """Neither `rowwise` nor all of it used."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head, self.idle = nn.Linear(4, 3), nn.Linear(3, 1), nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.softmax(self.first(x), 1)).reshape(-1)


@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize("kind", [Tied, Crossing])
def test_steps_that_move_the_weights_in_place_equal_torchs_own(kind: type[nn.Module], clients: int) -> None:
    torch.manual_seed(0)
    module = kind().double()
    network = ModuleNetwork(module)
    theta = 0.3 * torch.randn(clients, network.layout.size, dtype=torch.float64)
    copies = [theta[k].clone().requires_grad_() for k in range(clients)]
    moving = theta
    for step in range(4):
        if step == 2:  # the last client has finished
            moving = theta[: max(1, clients - 1)]
        x = torch.randn(len(moving), 5, 4, dtype=torch.float64)
        gradient = outcome(network, moving, x)[1]
        for k in range(len(moving)):
            logits = torch.func.functional_call(module, network.layout.views(copies[k]), (x[k],))
            (expected,) = torch.autograd.grad(logits.sum(), [copies[k]])
            torch.testing.assert_close(gradient[k], expected)
            copies[k].data -= 0.1 * expected
        moving.sub_(gradient, alpha=0.1)
    torch.testing.assert_close(theta, torch.stack([copy.detach() for copy in copies]))


def test_frozen_parameters_come_behind_the_trained_ones_and_before_statistics() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    module[0].weight.requires_grad_(False)
    layout = Layout.of(module)
    assert layout.names[layout.trainable_tensors] == "0.weight"
    assert (layout.size, layout.trainable, layout.statistics) == (6 + 3 + 6 + 4 + 6, 3 + 6 + 4, 6)
    named = layout.named(layout.flatten(module).numpy())
    np.testing.assert_array_equal(named["0.weight"], module[0].weight.detach().numpy())
    with pytest.raises(GlocalfairError, match="nothing to train"):
        Layout.of(module.requires_grad_(False))


@pytest.mark.parametrize("kind", ["mlp", "convolution"])
def test_frozen_parameters_stay(kind: str) -> None:
    torch.manual_seed(0)
    module: nn.Module = MLP(12, (3,))
    if kind == "convolution":
        module = nn.Sequential(nn.Unflatten(1, (3, 2, 2)), nn.Conv2d(3, 4, 1), nn.Flatten(), nn.Linear(16, 1))
    first = next(part for part in module.modules() if isinstance(part, nn.Linear | nn.Conv2d))
    first.requires_grad_(False)
    ready = network(module)
    rng = np.random.default_rng(0)
    rows = rows_of(rng.normal(size=(40, 12)), rng.integers(0, 2, 40), np.zeros((40, 1), int), [1], torch.float32)
    weights = ready.layout.flatten(module).numpy()
    jobs = [Job(name, weights, (Stage(),), np.arange(20), np.arange(0), 0, 1) for name in "ab"]
    for trained in Trainer(ready, rows).train(jobs, TrainingSettings(lr=0.1, batch_size=8)):
        moved = trained.weights[0] != weights
        assert moved[: ready.layout.trainable].any() and not moved[ready.layout.trainable :].any()
        assert len(weights) - ready.layout.trainable == sum(p.numel() for p in first.parameters())
