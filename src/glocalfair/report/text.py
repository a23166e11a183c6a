"""How figures are written, the same everywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

DASH = "–"
_ABBREVIATIONS = {"eod": "EOD", "dpd": "DPD", "dp_dis": "DP-Dis", "dis": "DIS", "fned": "FNED", "fped": "FPED"}


def is_defined(value: Any) -> bool:
    """Whether a figure exists: NaN in memory and null in a file are undefined.

    >>> is_defined(0.0), is_defined(float("nan")), is_defined(None)
    (True, False, False)
    """
    return value is not None and not math.isnan(value)


def figure(value: Any, missing: str = DASH) -> str:
    """Write a share or a gap with three decimals.

    >>> figure(0.8514), figure(-0.01), figure(1.0), figure(None)
    ('.851', '−.010', '1.000', '–')
    """
    if not is_defined(value):
        return missing
    text = f"{abs(value):.3f}".removeprefix("0")
    return f"−{text}" if value < 0 and text != ".000" else text


def span(ends: Sequence[Any] | None) -> str:
    """Write an interval.

    >>> span([0.841, 0.861]), span([None, None])
    ('.841 to .861', '–')
    """
    if ends is None or not all(is_defined(end) for end in ends):
        return DASH
    return f"{figure(ends[0])} to {figure(ends[1])}"


def label(name: str) -> str:
    """Write the name of a metric.

    >>> label("eod"), label("balanced_accuracy")
    ('EOD', 'balanced accuracy')
    """
    return _ABBREVIATIONS.get(name, name.replace("_", " "))


def at(values: Any, path: Sequence[str]) -> Any:
    """Follow a path into nested mappings; None where it ends early.

    >>> at({"eod": {"sex": 0.1}}, ("eod", "sex")), at({}, ("eod", "sex"))
    (0.1, None)
    """
    for key in path:
        if not isinstance(values, Mapping) or key not in values:
            return None
        values = values[key]
    return values


def constraints(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the constraints in a client's diagnostics, which tell of them column by column.

    Where λ is undefined the client does not hold the group.

    >>> table = {"name": ["fnr(sex=F)", "fnr(sex=M)"], "tau": [0, 0], "violation": [0.1, None], "multiplier": [1, None]}
    >>> constraints({"constraints": table})
    [{'name': 'fnr(sex=F)', 'tau': 0, 'violation': 0.1, 'multiplier': 1}]
    """
    table = told.get("constraints", {})
    if isinstance(table, list):  # logged one by one, as it was at first
        return table
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    return [row for row in rows if is_defined(row["multiplier"])]


def plural(number: int, noun: str) -> str:
    """Write a number with its noun.

    >>> plural(1, "client"), plural(1200, "row")
    ('1 client', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
