"""SGD and Adam over a matrix of weights with one row for each client.

The same formulas as `torch.optim.SGD` and `torch.optim.Adam`, elementwise, so that a cohort takes its step in a few
operations. Clients that have finished are simply not among the first `active` rows.
"""

from __future__ import annotations

import torch

from glocalfair.types import TrainingSettings

_PIECE = 1 << 17
"""Adam goes over its numbers a dozen times: a large model in pieces that stay in the cache."""


class Optimiser:
    """Local optimiser state of a cohort; lives for one stage of training."""

    def __init__(self, settings: TrainingSettings, lr: torch.Tensor | float, again: int) -> None:
        self._settings = settings
        self._lr = lr
        self._again = again
        """How many clients take a second step: only they need a memory of the first."""
        self._steps = 0
        self._first: torch.Tensor | None = None
        self._second: torch.Tensor | None = None

    def step(self, theta: torch.Tensor, grad: torch.Tensor) -> None:
        """Move the weights of those who still train, the first ones, against their gradients."""
        active = theta.shape[0]
        lr = self._lr[:active] if isinstance(self._lr, torch.Tensor) else self._lr
        if self._settings.weight_decay:
            grad = grad.add(theta, alpha=self._settings.weight_decay)
        self._steps += 1
        first = self._first
        if first is not None and first.shape[0] != active:
            first = self._first = first[:active]
        if self._settings.optimizer == "adam":
            if first is None or self._second is None:
                first, self._second = torch.zeros_like(theta), torch.zeros_like(theta)
                self._first = first
            state = theta, grad, first, self._second[:active]
            width = theta.shape[1] if theta.numel() <= _PIECE else max(1, _PIECE // active)
            for t, g, f, s in zip(*(each.split(width, 1) for each in state), strict=True):
                self._adam(t, g, f, s, lr)
            return
        if first is not None:
            self._roll(theta, grad, first, lr)
            return
        if self._settings.momentum:
            # Everybody takes the first step, and its gradient is the momentum.
            self._first = grad[: self._again].clone()
        _descend(theta, grad, lr)

    def _roll(self, theta: torch.Tensor, grad: torch.Tensor, first: torch.Tensor, lr: torch.Tensor | float) -> None:
        """Step with momentum: m ← μ m + g, w ← w − η m."""
        momentum = self._settings.momentum
        if isinstance(lr, torch.Tensor):
            _descend(theta, first.mul_(momentum).add_(grad), lr)
            return
        # What `torch.optim.SGD(fused=True)` calls: both in one pass.
        torch._fused_sgd_(
            [theta], [grad], [first], weight_decay=0.0, momentum=momentum, lr=lr, dampening=0.0, nesterov=False,
            maximize=False, is_first_step=False,
        )  # fmt: skip

    def _adam(
        self,
        theta: torch.Tensor,
        grad: torch.Tensor,
        first: torch.Tensor,
        second: torch.Tensor,
        lr: torch.Tensor | float,
    ) -> None:
        beta1, beta2, epsilon = 0.9, 0.999, 1e-8
        first.lerp_(grad, 1 - beta1)
        second.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        scale = (second / (1 - beta2**self._steps)).sqrt_().add_(epsilon)
        _descend(theta, first / scale.mul_(1 - beta1**self._steps), lr)


def _descend(theta: torch.Tensor, direction: torch.Tensor, lr: torch.Tensor | float) -> None:
    if isinstance(lr, torch.Tensor):
        theta.sub_(lr * direction)
    else:
        theta.sub_(direction, alpha=lr)
