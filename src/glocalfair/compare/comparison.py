"""The result of a comparison: one frozen structure that every renderer reads, and its JSON form."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from glocalfair.compare.jobs import Kind, Protection
from glocalfair.runs import jsonable

SCHEMA = 1
LEVEL = 0.95

View = Literal["global", "excess", "local", "spread", "local_excess"]
VIEWS: tuple[View, ...] = ("global", "excess", "local", "spread", "local_excess")
"""Global figures and their excess over the noise floor; local means over clients, their spread and their excess."""


@dataclass(frozen=True)
class Figure:
    """A column: a metric in a view, of one attribute where it has one."""

    view: View
    metric: str
    attribute: str | None = None
    better: Literal["higher", "lower"] | None = "lower"

    @property
    def key(self) -> str:
        """The name of the figure in files, such as ``global.eod.sex``."""
        return ".".join([self.view, self.metric, *([self.attribute] if self.attribute is not None else [])])


@dataclass(frozen=True)
class Difference:
    """Method minus baseline over the repeats where both are defined: mean and paired t interval."""

    mean: float
    low: float
    high: float
    pairs: int

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    @property
    def clear(self) -> bool:
        """Whether the interval excludes 0; never without an interval."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Cell:
    """A figure of a method.

    Attributes
    ----------
    values
        One for each repeat; NaN where undefined.
    mean, std
        Over the defined repeats; the std is the sample's (n − 1), NaN for fewer than two.
    pooled
        From the counts of all folds added up; NaN where there are no folds, and for local figures.
    defined, possible
        On how many clients (local) or repeats (global) the figure is defined, and of how many, over all repeats.
    best
        Best of its column, or equal to the best in three decimals.
    difference
        From the baseline; None for the baseline itself.
    """

    values: tuple[float, ...]
    mean: float
    std: float
    pooled: float
    defined: int
    possible: int
    best: bool = False
    difference: Difference | None = None

    @property
    def value(self) -> float:
        """The figure to show: from pooled counts if there are any, else the mean over the repeats."""
        return self.mean if math.isnan(self.pooled) else self.pooled


@dataclass(frozen=True)
class Run:
    """A run behind a row: its directory below the comparison's, and what it was."""

    path: str
    attribute: str | None
    repeat: int
    seconds: float
    collapsed: bool
    diverged: bool = False


@dataclass(frozen=True)
class Row:
    """A method in the comparison."""

    label: str
    method: str
    settings: Mapping[str, Any]
    protects: Literal["none", "single", "joint"]
    personal: bool
    """Whether the local figures belong to personal models."""
    averaged: int
    """Over how many of the last global models the final one is averaged."""
    discloses: tuple[str, ...]
    """What leaves a client beside the model and the number of examples, in one or two words each."""
    runs: tuple[Run, ...]
    cells: Mapping[str, Cell]

    @property
    def collapsed(self) -> int:
        """In how many runs the model gives (almost) everybody the same answer."""
        return sum(run.collapsed for run in self.runs)

    @property
    def diverged(self) -> int:
        """In how many runs the training diverged and ended early."""
        return sum(run.diverged for run in self.runs)

    @property
    def split(self) -> bool:
        """Whether the row is made of several runs for each repeat, one for each attribute."""
        return len({run.attribute for run in self.runs}) > 1


@dataclass(frozen=True)
class Comparison:
    """Methods on one federation, repeated over seeds or folds."""

    experiment: str
    baseline: str
    kind: Kind
    repeats: tuple[int, ...]
    protection: Protection
    attributes: tuple[str, ...]
    clients: int
    figures: tuple[Figure, ...]
    rows: tuple[Row, ...]
    config: Mapping[str, Any]

    def row(self, label: str) -> Row:
        """Return the row of a method."""
        return next(row for row in self.rows if row.label == label)

    def view(self, view: View) -> tuple[Figure, ...]:
        """Return the figures of a view, in order."""
        return tuple(figure for figure in self.figures if figure.view == view)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; NaN becomes None."""
        return {
            "schema": SCHEMA,
            "experiment": self.experiment,
            "baseline": self.baseline,
            "repeats": {"kind": self.kind, "numbers": list(self.repeats)},
            "protection": self.protection,
            "attributes": list(self.attributes),
            "clients": self.clients,
            "interval": {"level": LEVEL, "method": "paired t"},
            "figures": [{"key": figure.key, **dataclasses.asdict(figure)} for figure in self.figures],
            "methods": [_row(row) for row in self.rows],
            "config": jsonable(self.config),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Comparison:
        """Read what `to_dict` wrote."""
        figures = tuple(Figure(**{k: v for k, v in item.items() if k != "key"}) for item in data["figures"])
        return cls(
            experiment=data["experiment"],
            baseline=data["baseline"],
            kind=data["repeats"]["kind"],
            repeats=tuple(data["repeats"]["numbers"]),
            protection=data["protection"],
            attributes=tuple(data["attributes"]),
            clients=data["clients"],
            figures=figures,
            rows=tuple(_read_row(item) for item in data["methods"]),
            config=data["config"],
        )


def _row(row: Row) -> dict[str, Any]:
    plain = {f.name: getattr(row, f.name) for f in dataclasses.fields(row) if f.name not in ("cells", "runs")}
    cells = {key: {"value": cell.value, **dataclasses.asdict(cell)} for key, cell in row.cells.items()}
    runs = [dataclasses.asdict(run) for run in row.runs]
    result: dict[str, Any] = jsonable({**plain, "collapsed": row.collapsed, "runs": runs, "cells": cells})
    return result


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _read_cell(item: Mapping[str, Any]) -> Cell:
    told = item["difference"]
    ends = told and {key: _number(told[key]) for key in ("mean", "low", "high")}
    numbers = {key: _number(item[key]) for key in ("mean", "std", "pooled")}
    values = tuple(map(_number, item["values"]))
    return Cell(
        values=values,
        defined=item["defined"],
        possible=item["possible"],
        best=item["best"],
        difference=told and Difference(**ends, pairs=told["pairs"]),
        **numbers,
    )


def _read_row(item: Mapping[str, Any]) -> Row:
    kept = {k: item[k] for k in ("label", "method", "settings", "protects", "personal", "averaged")}
    return Row(
        **kept,
        discloses=tuple(item["discloses"]),
        runs=tuple(Run(**run) for run in item["runs"]),
        cells={key: _read_cell(cell) for key, cell in item["cells"].items()},
    )
