"""The two gaps behind EOD, with the groups they lie between, from the pooled counts of an arm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glocalfair.metrics.fairness import eod
from glocalfair.metrics.rates import fpr, tpr
from glocalfair.metrics.tables import Tables, split
from glocalfair.metrics.uncertainty import fair_draws
from glocalfair.report.html.arms import Arm
from glocalfair.rng import generator
from glocalfair.types import Floats


@dataclass(frozen=True)
class Gap:
    """A rate is `size` lower in group `low` than in group `high`."""

    rate: str
    low: str
    high: str
    size: float


def rates(arm: Arm, attribute: str, rate: str) -> dict[str, float]:
    """Return TPR or FPR of each group, over the test rows of all seeds; groups without such rows are left out."""
    first = arm.first.overall
    counts = sum((run.overall.counts.sum(axis=0) for run in arm.runs), np.zeros_like(first.counts[0]))
    view = dict(split(counts, first.attributes))[attribute]
    values: Floats = (tpr if rate == "TPR" else fpr)(view)
    names = next(a.values for a in arm.attributes if a.name == attribute)
    return {name: float(v) for name, v in zip(names, values, strict=True) if np.isfinite(v)}


def widest(arm: Arm, attribute: str, rate: str) -> Gap | None:
    """Return the two groups that are furthest apart; None if fewer than two have the rate."""
    found = rates(arm, attribute, rate)
    if len(found) < 2:
        return None
    low, high = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    return Gap(rate, low, high, found[high] - found[low])


def same_pair(arm: Arm, attribute: str, gap: Gap) -> float | None:
    """Return the gap of another arm between the same two groups; negative the other way round."""
    found = rates(arm, attribute, gap.rate)
    return found[gap.high] - found[gap.low] if {gap.low, gap.high} <= found.keys() else None


def within_chance(arm: Arm, attribute: str) -> int:
    """Count the runs whose EOD a perfectly fair model would show, or pass, in more than 1 of 20 test sets."""
    return sum(_by_chance(run.overall.pooled(), attribute, run.seed) for run in arm.runs)


def _by_chance(found: Tables, attribute: str, seed: int) -> bool:
    table = found.table(attribute)[0]
    value = float(eod(table))
    drawn = eod(fair_draws(table, "odds", generator(seed, "report", attribute), 500))
    drawn = drawn[np.isfinite(drawn)]
    return bool(np.isfinite(value) and len(drawn) and value <= np.quantile(drawn, 0.95))
