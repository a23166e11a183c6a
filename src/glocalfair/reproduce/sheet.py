"""A table with our figures and the paper's, and what must be known about it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from glocalfair import config as configuration
from glocalfair.compare.assemble import assemble, read
from glocalfair.compare.comparison import Cell, Comparison, Figure, View
from glocalfair.compare.comparison import Row as Compared
from glocalfair.metrics import defined
from glocalfair.reproduce.runs import Federation
from glocalfair.reproduce.spec import Budget, BudgetName, Column, Row, Setting, Source, Table
from glocalfair.runs import RunDirectory

_EXCESS: Mapping[View, View] = {"global": "excess", "local": "local_excess"}


@dataclass(frozen=True)
class Made:
    """How a sheet came about."""

    command: str
    wall_seconds: float
    training_seconds: float
    """Of all runs together, whenever they were made."""
    runs: int
    already_there: int
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Part:
    """One federation of a table, compared."""

    setting: Setting
    comparison: Comparison
    floors: Mapping[str, float]
    """For some columns: the gap that a perfectly fair model would show on so few rows."""


@dataclass(frozen=True)
class Beside:
    """A cell: ours, the paper's, and what each is as a multiple of its baseline."""

    figure: Figure
    ours: Cell
    ratio: float
    paper: float
    paper_ratio: float
    doubted: bool


@dataclass(frozen=True)
class Sheet:
    """A table of the paper, reproduced on one data set."""

    table: Table
    source: Source
    paper_source: Source
    budget_name: BudgetName
    budget: Budget
    parts: tuple[Part, ...]
    made: Made

    @property
    def stem(self) -> str:
        """The name of its files; Adult, which ships with the package, needs no suffix."""
        return self.table.name if self.source.name == "adult" else f"{self.table.name}-{self.source.name}"

    @property
    def borrowed(self) -> bool:
        """Whether the paper's figures are for other data."""
        return self.source.name != self.paper_source.name

    def figures(self) -> tuple[Figure, ...]:
        """Return the columns."""
        return tuple(column.figure(self.source.attributes) for column in self.table.columns)

    def lines(self, part: Part) -> Iterator[tuple[Row, Compared, tuple[Beside, ...]]]:
        """Give the rows of a federation with their cells."""
        for row in self.table.rows:
            ours = part.comparison.row(row.label)
            yield row, ours, tuple(self._beside(part, row, column) for column in self.table.columns)

    def _beside(self, part: Part, row: Row, column: Column) -> Beside:
        table, data, setting = self.table, self.source.name, part.setting.paper
        figure = column.figure(self.source.attributes)
        cell = part.comparison.row(row.label).cells[figure.key]
        base = baseline(table, row)
        reference = part.comparison.row(base.label).cells[figure.key].value if base else math.nan
        printed = table.printed(data, setting, row.paper, column)
        known = table.printed(data, setting, base.paper, column) if base else math.nan
        doubted = table.doubted(data, setting, row.paper, column)
        return Beside(figure, cell, divide(cell.value, reference), printed, divide(printed, known), doubted)


def baseline(table: Table, row: Row) -> Row | None:
    """Return the row that a row is divided by: of its own variant, else one that belongs to none.

    >>> from glocalfair.reproduce.spec import read_table
    >>> table = read_table("table7")
    >>> baseline(table, table.rows[-1]).label, baseline(table, table.rows[0])
    ('glocalfair, FPR ≤ .06', None)
    """
    found = [each for each in table.rows if each.paper == table.baseline and each.variant in ("", row.variant)]
    return max(found, key=lambda each: each.variant == row.variant, default=None)


def divide(value: float, reference: float) -> float:
    """Return the ratio; NaN where there is none.

    >>> divide(0.1, 0.4), divide(0.1, 0.0)
    (0.25, nan)
    """
    return value / reference if reference else math.nan


def compared(table: Table, source: Source, federation: Federation, root: Path) -> Part:
    """Put the finished runs of a federation together."""
    figures = tuple(column.figure(source.attributes) for column in table.columns)
    results = RunDirectory(federation.jobs[0].path).load_result()
    first = baseline(table, table.rows[0]) or table.rows[0]
    about = Comparison(
        table.name,
        first.label,
        "seed",
        tuple(dict.fromkeys(job.repeat for job in federation.jobs)),
        "per",
        source.attributes,
        len(results["local"]["clients"]),
        figures,
        (),
        {k: v for k, v in configuration.to_mapping(federation.config).items() if k != "method"},
    )
    made = assemble(about, federation.entries, federation.jobs, root)
    of_first = [job for job in federation.jobs if job.label == first.label]
    return Part(federation.setting, made, _floors(figures, [RunDirectory(job.path).load_result() for job in of_first]))


def _floors(figures: Sequence[Figure], results: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the noise floor of EOD and DP-Dis, mean over runs: what a gap has beside its excess."""
    floors = {}
    for figure in figures:
        if figure.view in _EXCESS and figure.metric in ("eod", "dp_dis"):
            excess = replace(figure, view=_EXCESS[figure.view])
            values = [read(figure, result) - read(excess, result) for result in results]
            floors[figure.key] = float(defined.mean(np.array(values)))
    return {key: value for key, value in floors.items() if not math.isnan(value)}
