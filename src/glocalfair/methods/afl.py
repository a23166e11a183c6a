"""AFL, agnostic federated learning (Mohri et al., 2019): the best model for the worst mixture of the clients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glocalfair.aggregation.average import normalise
from glocalfair.errors import invalid
from glocalfair.methods.groups import ascend_simplex
from glocalfair.methods.losses import ReportsLoss
from glocalfair.methods.roster import array, column, places, roster
from glocalfair.types import (
    ClientInfo,
    ClientUpdate,
    Floats,
    Log,
    RoundContext,
    ServerState,
)


@dataclass(frozen=True)
class AFL(ReportsLoss):
    """min_w max_{λ∈Δ} Σ_k λ_k F_k(w).

    Server: w^{t+1} = Σ_S λ_k w_k / Σ_S λ_k, then λ ← Π_Δ(λ + η F), Euclidean projection on the simplex, F the losses
    of the received model. λ starts at n_k/n. Absent clients keep their last loss; a client that has never taken part
    keeps its λ. If λ is 0 on all participants, they are averaged by number of examples.

    Attributes
    ----------
    eta
        Step size of λ; 0 is FedAvg.
    """

    name: ClassVar[str] = "afl"
    summary: ClassVar[str] = "the best model for the worst mixture of clients"
    citation: ClassVar[str] = "Mohri et al. 2019"

    eta: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.eta < math.inf:
            raise invalid("eta", "a number of at least 0", self.eta)

    def init(self, weights: Floats, infos: Mapping[str, ClientInfo]) -> ServerState:
        """Server, once: λ = n_k/n."""
        names, examples = roster(infos)
        loss = np.full(len(examples), np.nan)
        return ServerState(weights, {**names, "lam": examples / examples.sum(), "loss": loss})

    def coefficients(
        self, state: ServerState, updates: Sequence[ClientUpdate], context: RoundContext
    ) -> tuple[Floats, Log]:
        """Server: λ over the participants."""
        mixture = array(state.values, "lam")[places(state, updates)]
        if not mixture.any():
            return super().coefficients(state, updates, context)
        return normalise(mixture), {}

    def next_state(
        self, state: ServerState, weights: Floats, updates: Sequence[ClientUpdate], context: RoundContext
    ) -> ServerState:
        """Server: move λ towards the clients with the highest losses."""
        losses = array(state.values, "loss").copy()
        losses[places(state, updates)] = column(updates, "loss")
        mixture = ascend_simplex(array(state.values, "lam"), losses, self.eta)
        return ServerState(weights, {**state.values, "lam": mixture, "loss": losses})
