"""The loss of the received model, and the base of methods whose clients report it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from glocalfair.methods.base import ALWAYS, Disclosure, Method
from glocalfair.types import ClientState, ClientUpdate, Diagnostics, Floats, LocalPlan, Received, Trained


def cross_entropy(logits: Floats, y: npt.NDArray[Any]) -> Floats:
    """Return log(1 + e^s) − y·s of each row, whatever the size of s.

    >>> cross_entropy(np.array([0.0, 1000.0, -1000.0]), np.array([1, 1, 1])).round(2).tolist()
    [0.69, 0.0, 1000.0]
    """
    # `np.logaddexp` says the same and goes through numbers one by one.
    losses: Floats = np.maximum(logits, 0) + np.log1p(np.exp(-np.abs(logits))) - y * logits
    return losses


def row_losses(received: Received) -> Floats:
    """Return the cross-entropy of the received model on each training row, in float64."""
    assert received.logits is not None, "the method must set uses_received"
    return cross_entropy(received.logits.astype(np.float64), received.data.y)


@dataclass(frozen=True)
class ReportsLoss(Method):
    """Base of methods whose clients send the mean loss F_k of the received model with the trained one."""

    uses_received: ClassVar[bool] = True

    def discloses(self) -> tuple[Disclosure, ...]:
        """One number beside the model."""
        return (*ALWAYS, Disclosure("loss", "loss", "the mean loss of the received model on the client's rows"))

    def finish(
        self, plan: LocalPlan, trained: Trained, received: Received, state: ClientState
    ) -> tuple[ClientUpdate, ClientState, Diagnostics]:
        """Client: send the loss of the received model, not of the trained one."""
        data = received.data
        payload = {"loss": float(row_losses(received).mean())}
        return ClientUpdate(data.name, trained.weights[-1], len(data), payload), state, {}
