"""A module of the user's own is called with weights from outside, whatever it is made of."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from glocalfair.local.network import ModuleNetwork


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
