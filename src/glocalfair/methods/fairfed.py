"""FairFed (Ezzeldin et al., 2023): clients whose own unfairness is near the federation's count more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from glocalfair.aggregation.average import normalise
from glocalfair.errors import invalid
from glocalfair.methods.base import ALWAYS, PLAIN, Disclosure
from glocalfair.methods.groups import OneAttribute, by_cell, group_codes, reweighing
from glocalfair.methods.roster import array, column, places, roster
from glocalfair.types import (
    Broadcast,
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


def rates(positive: Floats, size: Floats) -> Floats:
    """Return positive/size, NaN where size is 0."""
    result: Floats = np.divide(positive, size, out=np.full(size.shape, np.nan), where=size > 0)
    return result


def worst_pair(rate: Floats) -> tuple[int, int] | None:
    """Return the two groups a < b with the largest |rate_a − rate_b|; None if fewer than two rates are defined.

    With two groups it is always (0, 1): the paper's signed difference, group 0 minus group 1.

    >>> worst_pair(np.array([0.5, np.nan, 0.1, 0.3]))
    (0, 2)
    """
    defined = np.flatnonzero(~np.isnan(rate))
    if len(defined) < 2:
        return None
    low, high = defined[np.argmin(rate[defined])], defined[np.argmax(rate[defined])]
    if low == high:
        low, high = defined[0], defined[1]
    return int(min(low, high)), int(max(low, high))


@dataclass(frozen=True)
class Gaps:
    """The federation's gap, each client's distance Δ_k from it, and how many distances are of accuracy."""

    overall: float
    pair: tuple[int, int] | None
    distance: Floats
    by_accuracy: int


def gaps(positive: Floats, size: Floats, correct: Floats, examples: Floats) -> Gaps:
    """Compare each client's gap with the pooled one.

    Parameters
    ----------
    positive, size
        ``[clients, groups]``: rows counted by the metric, and those predicted positive among them.
    correct, examples
        ``[clients]``: rows predicted right, and all rows.

    Notes
    -----
    F_global = Σ_k positive_{a,k} / Σ_k size_{a,k} − the same for b. A client that lacks a group still brings its other
    group into F_global; its own F_k is undefined, and Δ_k = |Acc_k − Acc| instead of |F_k − F_global|.
    """
    accuracy = correct / examples
    distance: Floats = np.abs(accuracy - correct.sum() / examples.sum())
    pooled = rates(positive.sum(0), size.sum(0))
    pair = worst_pair(pooled)
    if pair is None:
        return Gaps(math.nan, None, distance, len(distance))
    a, b = pair
    local = rates(positive, size)
    gap, overall = local[:, a] - local[:, b], float(pooled[a] - pooled[b])
    defined = ~np.isnan(gap)
    distance[defined] = np.abs(gap[defined] - overall)
    return Gaps(overall, pair, distance, int((~defined).sum()))


@dataclass(frozen=True)
class FairFed(OneAttribute):
    """Aggregation weights follow the distance Δ_k between local and global unfairness of the received model.

    ω̄_k ← ω̄_k − β (Δ_k − mean Δ), from ω̄_k = n_k/n. The mean and all counts are over the round's participants, absent
    clients keep ω̄_k, and Σω̄ never changes. ω̄_k may turn negative: it is kept so, and max(0, ω̄_k), normalised over
    the participants, weighs the models (by number of examples if all are 0).

    The paper's attribute is binary. With more groups the pair with the largest gap in the federation is compared.

    Attributes
    ----------
    beta
        Strength; 0 without local debiasing is FedAvg.
    metric
        ``"eopp"``: difference of true positive rates (the paper's "EOD"). ``"spd"``: of positive rates.
    variant
        ``"additive"``: the rule above. ``"exp"``: ω̄_k = (n_k/n) exp(−β Δ_k), without memory, of the first preprint.
    local_debias
        ``"reweighing"``: clients weigh their rows by P(a)·P(y) / P(a, y), as in the paper. Or ``"none"``.
    """

    name: ClassVar[str] = "fairfed"
    summary: ClassVar[str] = "clients whose unfairness is near the federation's count more, with local reweighing"
    citation: ClassVar[str] = "Ezzeldin et al. 2023"
    uses_received: ClassVar[bool] = True

    beta: float = 1.0
    metric: Literal["eopp", "spd"] = "eopp"
    variant: Literal["additive", "exp"] = "additive"
    local_debias: Literal["reweighing", "none"] = "reweighing"

    def __post_init__(self) -> None:
        if not 0 <= self.beta < math.inf:
            raise invalid("beta", "a number of at least 0", self.beta)
        if self.metric not in ("eopp", "spd"):
            raise invalid("metric", "'eopp' or 'spd'", self.metric)
        if self.variant not in ("additive", "exp"):
            raise invalid("variant", "'additive' or 'exp'", self.variant)
        if self.local_debias not in ("reweighing", "none"):
            raise invalid("local_debias", "'reweighing' or 'none'", self.local_debias)

    def discloses(self) -> tuple[Disclosure, ...]:
        """Group counts in every round."""
        counted = "with a positive label " if self.metric == "eopp" else ""
        predicted = "how many of those rows the received model predicts positive"
        by: tuple[Literal["groups"]] = ("groups",)
        return (
            *ALWAYS,
            Disclosure("group_size", "group_counts", f"the number of training rows {counted}of each group", shape=by),
            Disclosure("group_positive", "group_rates", predicted, shape=by),
            Disclosure("correct", "totals", "how many training rows the received model predicts right"),
        )

    def contradiction(self, update: ClientUpdate) -> str | None:
        """Check that no more rows are positive than there are."""
        if (array(update.payload, "group_positive") > array(update.payload, "group_size")).any():
            return "'group_positive' exceeds 'group_size'"
        return None

    def init(self, weights: Floats, infos: Mapping[str, ClientInfo]) -> ServerState:
        """Server, once: ω̄_k = n_k/n."""
        names, examples = roster(infos)
        share = examples / examples.sum()
        return ServerState(weights, {**names, "share": share, "omega": share.copy()})

    def plan(self, broadcast: Broadcast, received: Received, state: ClientState) -> LocalPlan:
        """Client: one stage, on reweighed rows if asked."""
        if self.local_debias == "none":
            return PLAIN
        codes, groups = group_codes(received.data, self.attribute)
        return (Stage(sample_weight=reweighing(received.data.y, codes, groups)),)

    def finish(
        self, plan: LocalPlan, trained: Trained, received: Received, state: ClientState
    ) -> tuple[ClientUpdate, ClientState, Diagnostics]:
        """Client: count the received model's predictions by group."""
        data = received.data
        assert received.logits is not None
        predicted = received.logits > 0
        codes, groups = group_codes(data, self.attribute)
        labels = slice(1, 2) if self.metric == "eopp" else slice(0, 2)
        payload = {
            "group_size": by_cell(data.y, codes, groups)[labels].sum(0),
            "group_positive": by_cell(data.y, codes, groups, predicted.astype(np.float64))[labels].sum(0),
            "correct": int((predicted == data.y).sum()),
        }
        return ClientUpdate(data.name, trained.weights[-1], len(data), payload), state, {}

    def coefficients(
        self, state: ServerState, updates: Sequence[ClientUpdate], context: RoundContext
    ) -> tuple[Floats, Log]:
        """Server: max(0, ω̄_k) over the participants."""
        omega, found = self._omega(state, updates)
        log = {"gap": found.overall, "pair": found.pair, "by_accuracy": found.by_accuracy}
        usable = np.maximum(omega, 0)
        if not usable.any():
            return super().coefficients(state, updates, context)[0], log
        return normalise(usable), log

    def next_state(
        self, state: ServerState, weights: Floats, updates: Sequence[ClientUpdate], context: RoundContext
    ) -> ServerState:
        """Server: remember ω̄ as it is, negative or not."""
        omega = array(state.values, "omega").copy()
        omega[places(state, updates)] = self._omega(state, updates)[0]
        return ServerState(weights, {**state.values, "omega": omega})

    def _omega(self, state: ServerState, updates: Sequence[ClientUpdate]) -> tuple[Floats, Gaps]:
        found = gaps(
            column(updates, "group_positive"),
            column(updates, "group_size"),
            column(updates, "correct"),
            np.array([update.examples for update in updates], dtype=np.float64),
        )
        at = places(state, updates)
        if self.variant == "exp":
            return array(state.values, "share")[at] * np.exp(-self.beta * found.distance), found
        return array(state.values, "omega")[at] - self.beta * (found.distance - found.distance.mean()), found
