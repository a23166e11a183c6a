"""The loss of the received model, and the base of methods whose clients report it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glocalfair.methods.base import ALWAYS, Disclosure, Method
from glocalfair.types import ClientState, ClientUpdate, Diagnostics, Floats, LocalPlan, Received, Trained


def row_losses(received: Received) -> Floats:
    """Return the cross-entropy log(1 + e^s) − y·s of the received model on each training row, in float64."""
    assert received.logits is not None, "the method must set uses_received"
    logits = received.logits.astype(np.float64)
    losses: Floats = np.logaddexp(0, logits) - received.data.y * logits
    return losses


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
