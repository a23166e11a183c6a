"""The tables of an audit, from integer counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from glocalfair.metrics import Tables, accuracy, dpd, eod, fpr, pooled, positive_rate, tables, tpr, worst_pair
from glocalfair.metrics.uncertainty import interval, resample
from glocalfair.rng import generator
from glocalfair.types import Ints

THRESHOLDS = tuple(round(0.05 * step, 2) for step in range(1, 20))
_DRAWS = 500


def group_rows(found: Tables, name: str, values: Sequence[str]) -> list[dict[str, Any]]:
    """Return for each group: rows, base rate, positive rate, TPR, FPR, accuracy."""
    counts = found.table(name).sum(axis=0)
    rates = [rate(counts) for rate in (positive_rate, tpr, fpr, accuracy)]
    rows = counts.sum(axis=(1, 2))
    return [
        {
            "group": value,
            "rows": int(rows[g]),
            "base_rate": float(counts[g, 1].sum() / rows[g]) if rows[g] else float("nan"),
            **{
                key: float(rate[g])
                for key, rate in zip(("positive_rate", "tpr", "fpr", "accuracy"), rates, strict=True)
            },
        }
        for g, value in enumerate(values)
    ]


def client_rows(found: Tables, names: Sequence[str], seed: int) -> list[dict[str, Any]]:
    """Return for each client: rows, accuracy, and by attribute EOD, its interval and its worst pair."""
    rows = []
    for k, name in enumerate(names):
        row: dict[str, Any] = {
            "client": name,
            "rows": int(found.counts[k].sum()),
            "eod": {},
            "interval": {},
            "pair": {},
        }
        row["accuracy"] = float(accuracy(pooled(found.counts[k])))
        for attribute in found.reported:
            counts = found.table(attribute.name)[k]
            draws = eod(resample(counts, generator(seed, "audit", name, attribute.name), _DRAWS))
            pair = worst_pair(counts)
            row["eod"][attribute.name] = float(eod(counts))
            row["interval"][attribute.name] = [float(end) for end in interval(draws)]
            row["pair"][attribute.name] = pair and {
                "rate": pair.rate,
                "groups": [attribute.values[pair.low], attribute.values[pair.high]],
                "gap": pair.gap,
            }
        rows.append(row)
    return rows


def worst(found: Tables, name: str, values: Sequence[str], clients: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Name the worst pair of groups, the group furthest from everybody, and the client with the widest gap."""
    counts = found.table(name).sum(axis=0)
    pair = worst_pair(counts)
    group: dict[str, Any] | None = None
    for what, rate in (("TPR", tpr), ("FPR", fpr)):
        distance = rate(counts) - rate(pooled(counts))
        for g in np.flatnonzero(~np.isnan(distance)).tolist():
            if group is None or abs(distance[g]) > abs(group["distance"]):
                group = {"group": values[g], "rate": what, "distance": float(distance[g])}
    defined = [row for row in clients if not np.isnan(row["eod"][name])] if len(clients) > 1 else []
    widest = max(defined, key=lambda row: float(row["eod"][name]), default=None)
    return {
        "pair": pair and {"rate": pair.rate, "groups": [values[pair.low], values[pair.high]], "gap": pair.gap},
        "group": group,
        "client": widest
        and {
            "client": widest["client"],
            "rows": widest["rows"],
            "eod": widest["eod"][name],
            "interval": widest["interval"][name],
            "pair": widest["pair"][name],
        },
    }


def sweep(
    y: Ints, scores: npt.NDArray[np.float64], codes: Ints, attributes: Sequence[Any], threshold: float | None
) -> list[dict[str, Any]]:
    """Return accuracy, EOD and DPD by threshold; scores that are no probabilities are cut at their quantiles."""
    if scores.min() >= 0 and scores.max() <= 1:
        chosen = {*THRESHOLDS, threshold}
    else:
        chosen = {*np.round(np.quantile(scores, THRESHOLDS), 6).tolist(), threshold}
    rows = []
    for cut in sorted(cut for cut in chosen if cut is not None):
        found = tables(y, (scores >= cut).astype(np.int64), codes, attributes)
        rows.append(
            {
                "threshold": float(cut),
                "accuracy": float(accuracy(pooled(found.counts[0]))),
                "eod": {each.name: float(eod(found.table(each.name))[0]) for each in found.reported},
                "dpd": {each.name: float(dpd(found.table(each.name))[0]) for each in found.reported},
            }
        )
    return rows
