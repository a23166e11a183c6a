"""FedFB (Zeng et al., 2021): the server reweighs groups until their losses agree; FairBatch for federations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from glocalfair.errors import invalid
from glocalfair.methods.base import ALWAYS, Disclosure
from glocalfair.methods.groups import OneAttribute, by_cell, group_codes
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

LABELS = {"eo": (1,), "eqodds": (0, 1)}
"""The labels whose groups are compared."""


def against_reference(values: Floats) -> tuple[Floats, Floats]:
    """Compare each value with the reference, the first that is not NaN.

    Returns the differences d_a = v_a − v_ref (0 where NaN, and for the reference), and the direction μ: the same with
    μ_ref = −Σ_a d_a, so that it sums to 0.
    """
    defined = np.flatnonzero(~np.isnan(values))
    difference = np.zeros(len(values))
    if len(defined) < 2:
        return difference, difference
    difference[defined] = values[defined] - values[defined[0]]
    direction = difference.copy()
    direction[defined[0]] = -difference.sum()
    return difference, direction


def dp_direction(losses: Floats, counts: Floats) -> tuple[Floats, float]:
    """Return μ ``[groups]`` for demographic parity, and its Euclidean norm.

    With L'_{y,a} = losses_{y,a} / m_{⋆,a}, μ_a = F_a against the reference group 0::

        F_a = L'_{0,a} − L'_{1,a} − m_{0,a}/m_{⋆,a} − (the same of group 0)

    With the 0-1 loss F_a = P(ŷ=1|a) − P(ŷ=1|0): a group that gets more positives must weigh its negatives more.

    Parameters
    ----------
    losses, counts
        ``[2 (label), groups]``, pooled over the same rows.
    """
    size = counts.sum(0)
    term = np.divide(losses[0] - losses[1] - counts[0], size, out=np.full(len(size), np.nan), where=size > 0)
    direction = against_reference(term)[1]
    return direction, float(np.linalg.norm(direction))


def odds_direction(losses: Floats, counts: Floats, labels: tuple[int, ...]) -> tuple[Floats, float]:
    """Return μ ``[2, groups]`` for equal opportunity or equalised odds, and the norm of the differences.

    d_{y,a} = L̄_{y,a} − L̄_{y,0}, L̄ the *mean* loss of the cell: sums would favour the larger group.
    """
    mean = np.divide(losses, counts, out=np.full(counts.shape, np.nan), where=counts > 0)
    direction = np.zeros(counts.shape)
    squares = 0.0
    for label in labels:
        difference, direction[label] = against_reference(mean[label])
        squares += float((difference**2).sum())
    return direction, math.sqrt(squares)


@dataclass(frozen=True)
class FedFB(OneAttribute):
    """Rows of label y and group a weigh n·v(y, a) in the loss; models are averaged by number of examples.

    ========== =================================== ==========================================================
    notion     n·v(y, a)                           the server's λ
    ========== =================================== ==========================================================
    ``dp``     λ_{y,a} / p_a, p_a = m_{⋆,a}/n      λ_{0,a} ← clip(λ_{0,a} + α_t μ_a, 0, 2p_a), λ_1 = 2p − λ_0
    ``eqodds`` λ_{y,a} / (m_{y,a}/n)               λ_{y,a} ← max(0, λ_{y,a} + α_t μ_{y,a}), then Σ_a λ = P(y)
    ``eo``     the same for y = 1, else 1          the same for y = 1
    ========== =================================== ==========================================================

    λ starts where every weight is 1, so round 1 is FedAvg. μ (`dp_direction`, `odds_direction`) comes from the losses
    of the received model, pooled over the round's participants, and acts one round later. Weights are n·v and not v:
    their mean is about 1 and a step does not shrink with the size of the federation.

    With more than two groups each is compared with the first; μ of the first balances the others.

    Attributes
    ----------
    notion
        ``"eqodds"`` (equalised odds), ``"eo"`` (equal opportunity) or ``"dp"`` (demographic parity).
    alpha
        Step size; 0 is FedAvg. The authors choose it on validation data from 0.001 to 2.
    step
        ``"decay"``: α_t = α/√t, as in the authors' code. ``"normalised"``: α_t = α/‖·‖, as in the paper; for ``eo``
        and two groups that is ±α.
    """

    name: ClassVar[str] = "fedfb"
    summary: ClassVar[str] = "the server reweighs groups and labels until group losses agree"
    citation: ClassVar[str] = "Zeng et al. 2021"
    uses_received: ClassVar[bool] = True

    notion: Literal["eqodds", "eo", "dp"] = "eqodds"
    alpha: float = 0.1
    step: Literal["decay", "normalised"] = "decay"

    def __post_init__(self) -> None:
        if self.notion not in ("eqodds", "eo", "dp"):
            raise invalid("notion", "'eqodds', 'eo' or 'dp'", self.notion)
        if not 0 <= self.alpha < math.inf:
            raise invalid("alpha", "a number of at least 0", self.alpha)
        if self.step not in ("decay", "normalised"):
            raise invalid("step", "'decay' or 'normalised'", self.step)

    def discloses(self) -> tuple[Disclosure, ...]:
        """Counts by label and group once, losses by label and group in every round."""
        by: tuple[int, Literal["groups"]] = (2, "groups")
        return (
            *ALWAYS,
            Disclosure("cell_size", "group_counts", "the number of training rows of each label and group", True, by),
            Disclosure(
                "cell_loss", "group_losses", "the summed loss of the received model on each label and group", shape=by
            ),
        )

    def enrol(self, data: ClientData) -> ClientInfo:
        """Client, once: m_{y,a}."""
        codes, groups = group_codes(data, self.attribute)
        return ClientInfo(len(data), {"cell_size": by_cell(data.y, codes, groups)})

    def init(self, weights: Floats, infos: Mapping[str, ClientInfo]) -> ServerState:
        """Server, once: λ equal to the shares, so that all weights are 1."""
        names, examples = roster(infos)
        size = enrolled(infos, "cell_size")
        share = size.sum(0) / examples.sum()
        if self.notion == "dp":
            share = np.stack([share.sum(0)] * 2)
        return ServerState(weights, {**names, "size": size, "share": share, "lam": share.copy()})

    def broadcast(self, state: ServerState, client: str, context: RoundContext) -> Broadcast:
        """Server: the weight of each label and group."""
        return Broadcast(state.weights, {"cell_weight": self._cell_weight(state)})

    def _cell_weight(self, state: ServerState) -> Floats:
        share, lam = array(state.values, "share"), array(state.values, "lam")
        weight: Floats = np.divide(lam, share, out=np.ones_like(lam), where=share > 0)
        return weight

    def plan(self, broadcast: Broadcast, received: Received, state: ClientState) -> LocalPlan:
        """Client: one stage on weighted rows."""
        codes, _ = group_codes(received.data, self.attribute)
        table = array(broadcast.payload, "cell_weight")
        return (Stage(sample_weight=table[received.data.y.astype(np.int64), codes]),)

    def finish(
        self, plan: LocalPlan, trained: Trained, received: Received, state: ClientState
    ) -> tuple[ClientUpdate, ClientState, Diagnostics]:
        """Client: send the summed loss of each cell; cells it lacks have 0."""
        data = received.data
        codes, groups = group_codes(data, self.attribute)
        loss = by_cell(data.y, codes, groups, row_losses(received))
        return ClientUpdate(data.name, trained.weights[-1], len(data), {"cell_loss": loss}), state, {}

    def coefficients(
        self, state: ServerState, updates: Sequence[ClientUpdate], context: RoundContext
    ) -> tuple[Floats, Log]:
        """Server: by number of examples; the log says how each label and group weighed."""
        share, log = super().coefficients(state, updates, context)
        return share, {**log, "cell_weight": self._cell_weight(state).tolist()}

    def next_state(
        self, state: ServerState, weights: Floats, updates: Sequence[ClientUpdate], context: RoundContext
    ) -> ServerState:
        """Server: move λ."""
        counts = array(state.values, "size")[places(state, updates)].sum(0)
        losses = column(updates, "cell_loss").sum(0)
        share, lam = array(state.values, "share"), array(state.values, "lam")
        return ServerState(weights, {**state.values, "lam": self.move(lam, share, losses, counts, context.round)})

    def move(self, lam: Floats, share: Floats, losses: Floats, counts: Floats, number: int) -> Floats:
        """Return λ ``[2, groups]`` after round `number`, from pooled losses and counts ``[2, groups]``."""
        if self.notion == "dp":
            direction, norm = dp_direction(losses, counts)
        else:
            direction, norm = odds_direction(losses, counts, LABELS[self.notion])
        if norm == 0:
            return lam
        rate = self.alpha / (norm if self.step == "normalised" else math.sqrt(number))
        if self.notion == "dp":
            negative = np.clip(lam[0] + rate * direction, 0, 2 * share[0])
            return np.stack([negative, 2 * share[0] - negative])
        moved = np.maximum(lam + rate * direction, 0)
        total = moved.sum(1, keepdims=True)
        scale = np.divide(share.sum(1, keepdims=True), total, out=np.ones_like(total), where=total > 0)
        result: Floats = moved * scale
        return result
