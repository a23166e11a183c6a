"""GIFAIR-FL (Yue et al., 2023): clients with a high loss train with larger steps, the others with smaller ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glocalfair.errors import invalid
from glocalfair.methods.losses import ReportsLoss
from glocalfair.methods.roster import array, column, place, places, roster
from glocalfair.types import (
    Broadcast,
    ClientInfo,
    ClientState,
    ClientUpdate,
    Floats,
    Ints,
    LocalPlan,
    Received,
    RoundContext,
    ServerState,
    Stage,
)


def sign_sums(losses: Floats) -> Ints:
    """Return r_k = Σ_j sign(F_k − F_j): the highest of K losses gets K−1, equal losses get equal ranks.

    A NaN is a client that nobody has heard of yet: it has rank 0 and counts for nobody.

    >>> sign_sums(np.array([0.3, 0.9, 0.3, np.nan])).tolist()
    [-1, 2, -1, 0]
    """
    known = ~np.isnan(losses)
    rising = np.sort(losses[known])
    ranks = np.zeros(len(losses), dtype=np.int64)
    below = np.searchsorted(rising, losses[known], side="left")
    above = len(rising) - np.searchsorted(rising, losses[known], side="right")
    ranks[known] = below - above
    return ranks


@dataclass(frozen=True)
class Gifair(ReportsLoss):
    """Minimises Σ p_k F_k + λ Σ_{i<j} |F_i − F_j| over all K clients, p_k = n_k/n.

    By the identity of the paper's Lemma 1 this is Σ p_k (1 + λ r_k/p_k) F_k with the ranks r_k of `sign_sums`, so a
    client's learning rate is scaled by 1 + λ r_k/p_k, which is positive for λ < λ_max = min_k p_k/(K−1).
    (The rate and not the loss: Adam would cancel a factor on the loss.)

    Ranks come from the losses of the received model of the round before; round 1 is neutral and absent clients keep
    their last loss. The server averages by number of examples.

    Attributes
    ----------
    c
        λ = c · λ_max, the authors' c is one half. c = 0 is FedAvg.
    """

    name: ClassVar[str] = "gifair"
    summary: ClassVar[str] = "clients with a high loss take larger steps"
    citation: ClassVar[str] = "Yue et al. 2023"

    c: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.c < 1:
            raise invalid("c", "at least 0 and below 1, or some steps would go backwards", self.c)

    def init(self, weights: Floats, infos: Mapping[str, ClientInfo]) -> ServerState:
        """Server, once: no losses yet, so everybody trains alike."""
        names, examples = roster(infos)
        share = examples / examples.sum()
        return ServerState(
            weights, {**names, "share": share, "loss": np.full(len(share), np.nan), "lr_scale": np.ones(len(share))}
        )

    def broadcast(self, state: ServerState, client: str, context: RoundContext) -> Broadcast:
        """Server: the client's factor on the learning rate."""
        return Broadcast(state.weights, {"lr_scale": float(array(state.values, "lr_scale")[place(state, client)])})

    def plan(self, broadcast: Broadcast, received: Received, state: ClientState) -> LocalPlan:
        """Client: one stage at the given rate."""
        scale = broadcast.payload["lr_scale"]
        assert isinstance(scale, float)
        return (Stage(lr_scale=scale),)

    def next_state(
        self, state: ServerState, weights: Floats, updates: Sequence[ClientUpdate], context: RoundContext
    ) -> ServerState:
        """Server: rank all clients by their latest losses."""
        losses = array(state.values, "loss").copy()
        losses[places(state, updates)] = column(updates, "loss")
        scale = self.lr_scales(array(state.values, "share"), sign_sums(losses))
        return ServerState(weights, {**state.values, "loss": losses, "lr_scale": scale})

    def lr_scales(self, share: Floats, ranks: Ints) -> Floats:
        """Return 1 + λ r_k/p_k with λ = c · min p/(K−1)."""
        others = max(len(share) - 1, 1)
        # In this order no factor exceeds 1, so the result is positive in floating point too.
        scales: Floats = 1 + self.c * (share.min() / share) * (ranks / others)
        return scales
