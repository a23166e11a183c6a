"""The tables of a comparison before they get their form: headings and cells, the same for every renderer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from glocalfair.compare.comparison import Cell, Comparison, Difference, Figure, Row, View
from glocalfair.report.text import DASH, figure, is_defined, label, plural

DAGGER = "†"
NOTHING = "nothing more"

TITLES: dict[View, str] = {
    "global": "Global: test rows that no client holds",
    "excess": "Global: excess over the noise floor",
    "local": "Local: each client on its own test rows, mean over clients",
    "spread": "Local: standard deviation over clients",
    "local_excess": "Local: excess over the noise floor, mean over clients",
}


@dataclass(frozen=True)
class Entry:
    """A cell as text, and whether it stands out."""

    text: str
    marked: bool = False


@dataclass(frozen=True)
class Line:
    """A method and its cells."""

    label: str
    collapsed: bool
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Grid:
    """A table: the first column is the method, the last may be words instead of numbers."""

    title: str
    headings: tuple[str, ...]
    lines: tuple[Line, ...]
    words: bool = False


def heading(column: Figure) -> str:
    """Write the heading of a column.

    >>> heading(Figure("global", "eod", "sex")), heading(Figure("global", "positive_rate"))
    ('EOD sex', 'positive rate')
    """
    return " ".join([label(column.metric), *([column.attribute] if column.attribute is not None else [])])


def write(cell: Cell, brief: bool = False) -> str:
    """Write a figure: value, ± standard deviation, and on how many it is defined if not on all.

    >>> write(Cell((0.1, 0.2), 0.15, 0.0707, float("nan"), 2, 2))
    '.150 ± .071'
    >>> write(Cell((float("nan"),), float("nan"), float("nan"), float("nan"), 0, 4))
    '– (0/4)'
    """
    text = figure(cell.value)
    if is_defined(cell.value) and is_defined(cell.std) and not brief:
        text = f"{text} ± {figure(cell.std)}"
    return text if cell.defined == cell.possible else f"{text} ({cell.defined}/{cell.possible})"


def write_difference(difference: Difference | None) -> str:
    """Write a difference with its sign and half the width of its interval.

    >>> write_difference(Difference(0.02, -0.01, 0.05, 3)), write_difference(None)
    ('+.020 ± .030', '–')
    """
    if difference is None or not is_defined(difference.mean):
        return DASH
    text = figure(difference.mean)
    text = text if text.startswith("−") or text == ".000" else f"+{text}"
    return f"{text} ± {figure(difference.half)}" if is_defined(difference.half) else text


def disclosed(row: Row) -> str:
    """Write what a method makes a client disclose."""
    return ", ".join(row.discloses) or NOTHING


def grids(comparison: Comparison) -> Iterator[Grid]:
    """Give the tables, top to bottom; one in which nothing is defined is left out."""
    for view, title in TITLES.items():
        grid = _view(comparison, view, title)
        if grid is not None:
            yield grid
    yield from _differences(comparison)


def title(comparison: Comparison) -> str:
    """Write the title of the whole."""
    over = f"{plural(len(comparison.repeats), comparison.kind)}"
    return f"{comparison.experiment}: {plural(comparison.clients, 'client')}, {over}"


def _view(comparison: Comparison, view: View, name: str) -> Grid | None:
    columns = comparison.view(view)
    if not any(is_defined(row.cells[column.key].value) for row in comparison.rows for column in columns):
        return None
    told = view == "global"
    lines = []
    for row in comparison.rows:
        cells = [(row.cells[column.key], column) for column in columns]
        entries = [Entry(write(cell, column.metric == "positive_rate"), cell.best) for cell, column in cells]
        entries += [Entry(disclosed(row))] if told else []
        lines.append(Line(row.label, row.collapsed > 0, tuple(entries)))
    return Grid(name, (*map(heading, columns), *(["discloses"] if told else [])), tuple(lines), told)


def _differences(comparison: Comparison) -> Iterator[Grid]:
    views: Sequence[tuple[View, str]] = (("global", "Global"), ("local", "Local"))
    for view, name in views:
        columns = [column for column in comparison.view(view) if column.better]
        rows = [row for row in comparison.rows if row.label != comparison.baseline]
        lines = tuple(_difference_line(row, columns) for row in rows)
        if all(math.isnan(_mean(row, column)) for row in rows for column in columns):
            continue
        interval = ""
        if len(comparison.repeats) > 1:
            interval = f" ± 95 % interval (paired t, {len(comparison.repeats)} {comparison.kind}s; *: not 0)"
        yield Grid(f"{name}: difference from {comparison.baseline}{interval}", tuple(map(heading, columns)), lines)


def _mean(row: Row, column: Figure) -> float:
    difference = row.cells[column.key].difference
    return math.nan if difference is None else difference.mean


def _difference_line(row: Row, columns: Sequence[Figure]) -> Line:
    differences = [row.cells[column.key].difference for column in columns]
    entries = (Entry(write_difference(each), each is not None and each.clear) for each in differences)
    return Line(row.label, row.collapsed > 0, tuple(entries))
