"""A comparison as CSV: one line for each method and figure, all digits."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

from glocalfair.compare.comparison import Cell, Comparison, Figure, Row

COLUMNS = (
    "method",
    "view",
    "metric",
    "attribute",
    "value",
    "mean",
    "std",
    "pooled",
    "defined",
    "possible",
    "best",
    "difference",
    "low",
    "high",
    "pairs",
    "collapsed_runs",
    "runs",
    "discloses",
)


def comma_separated(comparison: Comparison) -> str:
    """Write the long table; what is undefined is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in comparison.rows:
        for figure in comparison.figures:
            writer.writerow(map(_plain, _line(row, figure, row.cells[figure.key])))
    return out.getvalue()


def _line(row: Row, figure: Figure, cell: Cell) -> tuple[Any, ...]:
    difference = cell.difference
    gap = (difference.mean, difference.low, difference.high, difference.pairs) if difference else ("", "", "", "")
    return (
        *(row.label, figure.view, figure.metric, figure.attribute or ""),
        *(cell.value, cell.mean, cell.std, cell.pooled, cell.defined, cell.possible, int(cell.best)),
        *gap,
        *(row.collapsed, len(row.runs), ", ".join(row.discloses)),
    )


def _plain(value: Any) -> Any:
    return "" if isinstance(value, float) and math.isnan(value) else value
