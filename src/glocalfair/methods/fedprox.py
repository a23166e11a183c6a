"""FedProx (Li et al., 2020): FedAvg whose clients are held near the model they received."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from glocalfair.errors import invalid
from glocalfair.methods.base import Method
from glocalfair.types import Broadcast, ClientState, LocalPlan, Received, Stage


@dataclass(frozen=True)
class FedProx(Method):
    """Client: min F_k(w) + (μ/2)‖w − w^t‖². Server: FedAvg. μ = 0 is FedAvg.

    Attributes
    ----------
    mu
        Strength of the pull, one of the authors' grid {0.001, 0.01, 0.1, 1}. Local steps are stable for
        lr · μ < 2 (1 + momentum).
    """

    name: ClassVar[str] = "fedprox"
    summary: ClassVar[str] = "keeps local training near the global model; no group fairness"
    citation: ClassVar[str] = "Li et al. 2020"

    mu: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.mu < math.inf:
            raise invalid("mu", "a number of at least 0", self.mu)

    def plan(self, broadcast: Broadcast, received: Received, state: ClientState) -> LocalPlan:
        """Client: one stage with a proximal term."""
        return (Stage(proximal=self.mu),)
