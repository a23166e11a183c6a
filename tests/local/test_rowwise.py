"""The shortcut for modules that work on their last axis: who may take it, and that it changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from glocalfair.errors import GlocalfairError
from glocalfair.local import mapping
from glocalfair.local import network as generic
from glocalfair.local.network import ModuleNetwork
from glocalfair.local.rowwise import rowwise

from .test_network import Tied, outcome

N = 4
"""Clients, rows and features: as many of each, so that mixing them up gives no error, only wrong numbers."""


class Own(nn.Module):
    """A user's forward pass over two layers, a free parameter and a norm."""

    def __init__(self, forward: Callable[[Own, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(N, N), nn.Linear(N, 1)
        self.scale, self.norm = nn.Parameter(torch.ones(N)), nn.LayerNorm(N)
        self._forward = forward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._forward(self, x)


class Halved(nn.Linear):
    """A linear layer in name only."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) / 2


YES = {
    "layers": nn.Sequential(nn.Linear(N, 3), nn.GELU(), nn.Linear(3, 1)),
    "no bias": nn.Sequential(nn.Linear(N, 3, bias=False), nn.Tanh(), nn.Linear(3, 1, bias=False)),
    "tied": Tied(),
    "residual": Own(lambda m, x: m.head(x + 2 * torch.relu(m.first(x))).squeeze(-1)),
    "product": Own(lambda m, x: m.head(F.silu(m.first(x)) * x)[..., 0]),
}
NO = {
    "second axis": Own(lambda m, x: m.head(m.first(x))[:, 0]),
    "second axis squeezed": Own(lambda m, x: m.head(m.first(x)).squeeze(1)),
    "softmax of the second axis": nn.Sequential(nn.Linear(N, N), nn.Softmax(1), nn.Linear(N, 1)),
    "norm": Own(lambda m, x: m.head(m.norm(m.first(x))).squeeze(-1)),
    "parameter": Own(lambda m, x: m.head(m.scale * m.first(x)).squeeze(-1)),
    "mean over rows": Own(lambda m, x: m.head(x - x.mean(0)).squeeze(-1)),
    "transposed": Own(lambda m, x: m.head(m.first(x).T).squeeze(-1)),
    "arithmetic behind the squeeze": Own(lambda m, x: m.head(x * m.head(m.first(x)).squeeze(-1)).squeeze(-1)),
    "another layer": nn.Sequential(Halved(N, N), nn.ReLU(), nn.Linear(N, 1)),
}


def hooked() -> nn.Module:
    module = nn.Sequential(nn.Linear(N, N), nn.Linear(N, 1))
    module[0].register_forward_hook(lambda layer, given, found: found.flip(1))
    return module


NO["hook"] = hooked()


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("name", [*YES, *NO])
def test_equals_functional_call(name: str, fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mapping.FAST, "a new torch: see whether glocalfair.local.mapping can follow it"
    for place in (mapping, generic):
        monkeypatch.setattr(place, "FAST", fast)
    torch.manual_seed(0)
    module = {**YES, **NO}[name].double()
    network = ModuleNetwork(module)
    network.together(torch.randn(20, N, dtype=torch.float64))
    assert network.rowwise == rowwise(module) == (name in YES)
    theta = torch.randn(N, network.layout.size, dtype=torch.float64)
    x = torch.randn(N, N, N, dtype=torch.float64)
    # The first call goes through `vmap`, later ones through what lies beneath it.
    outcome(network, theta, x)
    logits, gradient = outcome(network, theta, x)
    for k in range(N):
        leaf = theta[k].clone().requires_grad_()
        expected = torch.func.functional_call(module, network.layout.views(leaf), (x[k],)).reshape(-1)
        expected.sum().backward()
        torch.testing.assert_close(logits[k], expected.detach())
        torch.testing.assert_close(gradient[k], leaf.grad)


class Disguised(nn.Module):
    """Modules that do something else when they run than `torch.fx` sees: each takes the mean of its rows away."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.first, self.head, self.kind = nn.Linear(N, N), nn.Linear(N, 1), kind

    def forward(self, x: torch.Tensor, given: torch.Tensor | None = None) -> torch.Tensor:
        x = self.first(x)
        if (
            (self.kind == "default" and given is None)
            or (self.kind == "training" and self.training)
            or (self.kind == "type" and isinstance(x, torch.Tensor))
        ):
            x = x - x.mean(0)
        return self.head(torch.relu(x)).squeeze(-1)


class OneInput(Disguised):
    def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return super().forward(x)


@pytest.mark.parametrize("kind", [Disguised("default"), OneInput("default"), OneInput("training"), OneInput("type")])
def test_what_runs_counts_and_not_what_was_followed(kind: nn.Module) -> None:
    torch.manual_seed(0)
    module = kind.double().eval()
    network = ModuleNetwork(module)
    # Its rows are not trained beside padding.
    assert not network.together(torch.randn(20, N, dtype=torch.float64))
    theta = torch.randn(N, network.layout.size, dtype=torch.float64)
    x = torch.randn(N, N, N, dtype=torch.float64)
    logits, _ = outcome(network, theta, x)
    module.train()
    for k in range(N):
        expected = torch.func.functional_call(module, network.layout.views(theta[k]), (x[k],))
        torch.testing.assert_close(logits[k], expected.detach())
    assert not network.rowwise


def test_a_buffer_that_a_model_writes_itself() -> None:
    class Remembers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(N, 1)
            self.register_buffer("mean", torch.zeros(N))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.training:
                self.mean.mul_(0.5).add_(0.5 * (x * self.head.weight[0]).mean(0))  # type: ignore[operator]
            return self.head(x).squeeze(-1)

    network = ModuleNetwork(Remembers())
    theta, extra, x = torch.ones(1, N + 1), torch.zeros(1, N), torch.randn(1, 3, N)
    with torch.no_grad():
        _, pullback = network.forward(theta, extra, x)
        pullback(torch.ones(1, 3))
    torch.testing.assert_close(extra[0], 0.5 * x[0].mean(0))


def test_what_depends_on_the_data_is_no_shortcut() -> None:
    assert not rowwise(Own(lambda m, x: m.head(x) if x.sum() > 0 else m.head(m.first(x))))


def test_one_logit_for_each_row() -> None:
    network = ModuleNetwork(nn.Sequential(nn.Linear(N, 2)))
    assert not network.together(torch.zeros(20, N))
    with pytest.raises(GlocalfairError, match="one logit for each row"):
        outcome(network, torch.zeros(N, network.layout.size), torch.zeros(N, N, N))
