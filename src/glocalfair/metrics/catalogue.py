"""The list of metrics: what they are called, what they mean, and what a perfectly fair model means for them.

A new metric is a function in `rates` or `fairness` and a line here; summaries, intervals, noise floors and
``glocalfair list metrics`` follow from the line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from glocalfair.errors import unknown
from glocalfair.metrics import fairness, rates
from glocalfair.metrics.counts import Counts
from glocalfair.metrics.defined import Array, gap

Function = Callable[[Counts], Array]
Scope = Literal["global", "local", "both"]
Fair = Literal["odds", "parity"]

RATES: dict[str, Function] = {
    "TPR": rates.tpr,
    "FPR": rates.fpr,
    "FNR": rates.fnr,
    "positive rate": rates.positive_rate,
}


class Metric(NamedTuple):
    """A line of the catalogue.

    Attributes
    ----------
    function
        From a table ``[..., groups, 2, 2]`` to values ``[...]`` (DIS: ``[..., clients, groups, 2, 2]``).
    description
        One line for a list.
    kind
        Where it is reported: on all rows together, in each client, or both.
    rates
        The rates by group it is made of; empty for a metric that does not look at groups.
    fair
        What a perfectly fair model equalises over groups: "odds" is TPR and FPR, "parity" the positive rate.
    averaged
        Reported as the mean over the attributes, and each attribute under ``<name>_by``.
    """

    function: Function
    description: str
    kind: Scope = "both"
    rates: tuple[str, ...] = ()
    fair: Fair | None = None
    averaged: bool = False


def _overall(rate: Function) -> Function:
    return lambda table: rate(rates.pooled(table))


PERFORMANCE: dict[str, Metric] = {
    "accuracy": Metric(_overall(rates.accuracy), "share of right predictions"),
    "balanced_accuracy": Metric(_overall(rates.balanced_accuracy), "mean of TPR and TNR"),
    "precision": Metric(_overall(rates.precision), "share of positive predictions that are right"),
    "recall": Metric(_overall(rates.recall), "share of positives that are found"),
    "positive_rate": Metric(_overall(rates.positive_rate), "share of positive predictions; 0 or 1 is a collapse"),
}

FAIRNESS: dict[str, Metric] = {
    "eod": Metric(
        fairness.eod,
        "equalized odds difference: larger of the TPR and FPR gaps",
        "both",
        ("TPR", "FPR"),
        "odds",
    ),
    "equal_opportunity": Metric(
        fairness.equal_opportunity,
        "TPR_0 − TPR_1, signed; the TPR gap for more groups",
        "both",
        ("TPR",),
        "odds",
    ),
    "dpd": Metric(
        fairness.dpd,
        "demographic parity difference: gap of positive rates",
        "both",
        ("positive rate",),
        "parity",
    ),
    "dp_dis": Metric(
        fairness.dp_dis,
        "largest distance of a group's positive rate from the overall one, mean over attributes",
        "both",
        ("positive rate",),
        "parity",
        averaged=True,
    ),
    "eod_literal": Metric(
        fairness.eod_literal,
        "the paper's printed EOD formula, which has no y: equals dpd",
        "both",
        ("positive rate",),
        "parity",
    ),
    "fned": Metric(fairness.fned, "sum over groups of |FNR − FNR_g|", "both", ("FNR",), "odds"),
    "fped": Metric(fairness.fped, "sum over groups of |FPR − FPR_g|", "both", ("FPR",), "odds"),
}

METRICS: dict[str, Metric] = {
    **PERFORMANCE,
    **FAIRNESS,
    "dis": Metric(fairness.dis, "accuracy of the best client minus that of the worst", "local"),
}


def metric(name: str) -> Metric:
    """Look a metric up; an unknown name is an error with the nearest one.

    >>> metric("eod").fair
    'odds'
    """
    if name not in METRICS:
        raise unknown("metric", name, METRICS)
    return METRICS[name]


class Pair(NamedTuple):
    """The two groups that make a gap: which rate, the group where it is lowest and where it is highest."""

    rate: str
    low: int
    high: int
    gap: float


def worst_pair(table: Counts, name: str = "eod") -> Pair | None:
    """Name the pair of groups with the largest gap in the rates of a metric; None where it is undefined.

    Parameters
    ----------
    table
        One table, ``[groups, 2, 2]``.
    name
        A fairness metric. `eod` looks at TPR and FPR and takes the larger gap (TPR if they are equal).

    Examples
    --------
    >>> table = np.array([[[8, 2], [1, 3]], [[9, 1], [2, 2]], [[5, 5], [0, 0]]])
    >>> worst_pair(table)
    Pair(rate='FPR', low=1, high=2, gap=0.4)
    """
    candidates: list[Pair] = []
    for rate in metric(name).rates:
        by_group = RATES[rate](table)
        size = float(gap(by_group))
        if np.isnan(size):
            return None
        candidates.append(Pair(rate, int(np.nanargmin(by_group)), int(np.nanargmax(by_group)), size))
    return max(candidates, key=lambda pair: pair.gap, default=None)
