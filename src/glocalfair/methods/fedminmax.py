"""FedMinMax (Papadaki et al., 2022): the best model for the worst-off group of the whole federation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from glocalfair.errors import invalid
from glocalfair.methods.base import ALWAYS, Disclosure
from glocalfair.methods.groups import OneAttribute, ascend_simplex, group_codes
from glocalfair.methods.losses import row_losses
from glocalfair.methods.roster import array, column, enrolled, places, roster
from glocalfair.types import (
    Broadcast,
    ClientData,
    ClientInfo,
    ClientState,
    ClientUpdate,
    Diagnostics,
    Floats,
    LocalPlan,
    Log,
    Received,
    RoundContext,
    ServerState,
    Stage,
    Trained,
)


@dataclass(frozen=True)
class FedMinMax(OneAttribute):
    """min_θ max_{μ∈Δ} Σ_a μ_a r_a(θ), r_a the mean loss of group a over all clients.

    Client: rows of group a weigh μ_a/ρ_a, ρ_a = n_a/n. Server: average by number of examples, then
    r_a = Σ_S loss_{a,k} / Σ_S n_{a,k} of the received model and μ ← Π_Δ(μ + η r). μ starts at ρ, so round 1 is
    FedAvg. A group that no participant holds keeps its μ.

    Attributes
    ----------
    eta
        Step size of μ; 0 is FedAvg.
    """

    name: ClassVar[str] = "fedminmax"
    summary: ClassVar[str] = "the best model for the group with the highest loss"
    citation: ClassVar[str] = "Papadaki et al. 2022"
    uses_received: ClassVar[bool] = True

    eta: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.eta < math.inf:
            raise invalid("eta", "a number of at least 0", self.eta)

    def discloses(self) -> tuple[Disclosure, ...]:
        """Group sizes once, group losses in every round."""
        by: tuple[Literal["groups"]] = ("groups",)
        return (
            *ALWAYS,
            Disclosure("group_size", "group_counts", "the number of training rows of each group", True, by),
            Disclosure("group_loss", "group_losses", "the summed loss of the received model on each group", shape=by),
        )

    def enrol(self, data: ClientData) -> ClientInfo:
        """Client, once: how many rows of each group."""
        codes, groups = group_codes(data, self.attribute)
        return ClientInfo(len(data), {"group_size": np.bincount(codes, minlength=groups)})

    def init(self, weights: Floats, infos: Mapping[str, ClientInfo]) -> ServerState:
        """Server, once: μ = ρ."""
        names, examples = roster(infos)
        size = enrolled(infos, "group_size")
        rho = size.sum(0) / examples.sum()
        return ServerState(weights, {**names, "size": size, "rho": rho, "mu": rho.copy()})

    def broadcast(self, state: ServerState, client: str, context: RoundContext) -> Broadcast:
        """Server: the weight of each group's rows."""
        return Broadcast(state.weights, {"group_weight": self._group_weight(state)})

    def _group_weight(self, state: ServerState) -> Floats:
        rho, mu = array(state.values, "rho"), array(state.values, "mu")
        weight: Floats = np.divide(mu, rho, out=np.ones_like(mu), where=rho > 0)
        return weight

    def plan(self, broadcast: Broadcast, received: Received, state: ClientState) -> LocalPlan:
        """Client: one stage on weighted rows."""
        codes, _ = group_codes(received.data, self.attribute)
        return (Stage(sample_weight=array(broadcast.payload, "group_weight")[codes]),)

    def finish(
        self, plan: LocalPlan, trained: Trained, received: Received, state: ClientState
    ) -> tuple[ClientUpdate, ClientState, Diagnostics]:
        """Client: send each group's summed loss; groups it lacks have 0."""
        data = received.data
        codes, groups = group_codes(data, self.attribute)
        loss = np.bincount(codes, weights=row_losses(received), minlength=groups)
        return ClientUpdate(data.name, trained.weights[-1], len(data), {"group_loss": loss}), state, {}

    def coefficients(
        self, state: ServerState, updates: Sequence[ClientUpdate], context: RoundContext
    ) -> tuple[Floats, Log]:
        """Server: by number of examples; the log says how each group weighed."""
        share, log = super().coefficients(state, updates, context)
        return share, {**log, "group_weight": self._group_weight(state).tolist()}

    def next_state(
        self, state: ServerState, weights: Floats, updates: Sequence[ClientUpdate], context: RoundContext
    ) -> ServerState:
        """Server: move μ towards the groups with the highest losses."""
        size = array(state.values, "size")[places(state, updates)].sum(0)
        total = column(updates, "group_loss").sum(0)
        mean = np.divide(total, size, out=np.full(len(size), np.nan), where=size > 0)
        mu = ascend_simplex(array(state.values, "mu"), mean, self.eta)
        return ServerState(weights, {**state.values, "mu": mu})
