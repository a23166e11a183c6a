"""Ditto (Li et al., 2021): FedAvg, and beside it a personal model for each client, tied to the global one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from glocalfair.errors import invalid
from glocalfair.methods.base import Method
from glocalfair.types import (
    Broadcast,
    ClientState,
    ClientUpdate,
    Diagnostics,
    LocalPlan,
    Received,
    Stage,
    Trained,
)


@dataclass(frozen=True)
class Ditto(Method):
    """The global model is FedAvg's. Client k keeps v_k ≈ argmin F_k(v) + (λ/2)‖v − w^t‖², w^t the received model.

    Local metrics are those of v_k, global metrics those of w. λ = 0 is training alone; λ → ∞ pulls v_k to w.
    A client's first personal model starts from the received weights.

    Attributes
    ----------
    lam
        λ. Local steps are stable for lr · λ < 2 (1 + momentum).
    personal_epochs
        Epochs of the personal model in a round; 0: as many as of the global one.
    """

    name: ClassVar[str] = "ditto"
    summary: ClassVar[str] = "a personal model for each client, tied to the FedAvg model"
    citation: ClassVar[str] = "Li et al. 2021"
    personal: ClassVar[bool] = True

    lam: float = 1.0
    personal_epochs: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.lam < math.inf:
            raise invalid("lam", "a number of at least 0", self.lam)
        if self.personal_epochs < 0:
            raise invalid("personal_epochs", "a whole number of at least 0", self.personal_epochs)

    def plan(self, broadcast: Broadcast, received: Received, state: ClientState) -> LocalPlan:
        """Client: train the global model, then the personal one from where it was."""
        own = state.get("personal")
        personal = Stage(start="received", proximal=self.lam, epochs=self.personal_epochs or None)
        return Stage(), replace(personal, start=own) if isinstance(own, np.ndarray) else personal

    def finish(
        self, plan: LocalPlan, trained: Trained, received: Received, state: ClientState
    ) -> tuple[ClientUpdate, ClientState, Diagnostics]:
        """Client: send the first stage, keep the second."""
        data = received.data
        return ClientUpdate(data.name, trained.weights[0], len(data)), {"personal": trained.weights[1]}, {}
