"""What the paper's tables are: rows, columns, federations, budgets, and the figures that the paper prints."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Literal, get_args

from glocalfair import config as configuration
from glocalfair.compare.comparison import VIEWS, Figure
from glocalfair.errors import unknown
from glocalfair.options import from_mapping

BudgetName = Literal["quick", "standard", "full"]
BUDGETS: tuple[BudgetName, ...] = get_args(BudgetName)
TABLES = tuple(f"table{number}" for number in range(1, 8))
FIGURES = "figures"
MAIN = "main"
"""The name of the setting in tables that have only one."""
_HIGHER = ("accuracy", "precision", "recall")


@dataclass(frozen=True)
class Column:
    """A column: what compare calls a figure, with the attribute by its number, since data sets have their own."""

    key: str

    def figure(self, attributes: tuple[str, ...]) -> Figure:
        """Return the figure for the attributes of a data set.

        >>> Column("global.eod.1").figure(("sex", "race")).key
        'global.eod.race'
        """
        view, metric, *rest = self.key.split(".")
        known = next(each for each in VIEWS if each == view)
        attribute = attributes[int(rest[0])] if rest else None
        return Figure(known, metric, attribute, "higher" if metric in _HIGHER else "lower")


@dataclass(frozen=True)
class Row:
    """A row: a method with settings, and the row of the paper that it stands beside ("" for none)."""

    label: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    paper: str = ""
    variant: str = ""


@dataclass(frozen=True)
class Setting:
    """A federation of a table: its partition, and the name of the paper's figures that belong beside it."""

    title: str
    partition: Mapping[str, Any] = field(default_factory=dict)
    paper: str = MAIN
    note: str = ""


@dataclass(frozen=True)
class Budget:
    """How much is spent: seeds, and rounds if not the paper's."""

    seeds: int
    rounds: int | None = None


@dataclass(frozen=True)
class Doubt:
    """Figures of the paper that something else in it contradicts: cells ``row:column``, ``*`` for every row."""

    data: str
    cells: tuple[str, ...]
    why: str
    setting: str = MAIN

    def about(self, row: str, column: str) -> bool:
        """Whether the doubt is about a cell."""
        return not {f"{row}:{column}", f"*:{column}"}.isdisjoint(self.cells)


Figures = Mapping[str, Mapping[str, Mapping[str, tuple[float, ...]]]]
"""Data set → setting → row → the figures in the order of the columns."""


@dataclass(frozen=True)
class Table:
    """A table of the paper as an experiment."""

    name: str
    title: str
    claim: str
    columns: tuple[Column, ...]
    baseline: str
    rows: tuple[Row, ...]
    settings: Mapping[str, tuple[Setting, ...]]
    budgets: Mapping[str, Budget]
    paper: Figures
    figures_of: Mapping[str, str]
    doubts: tuple[Doubt, ...]
    notes: tuple[str, ...]

    def source(self, data: str) -> str:
        """Return the data set whose figures the paper prints: this one, or the one that stands in for it."""
        return self.figures_of.get(data, data)

    def federations(self, data: str) -> tuple[Setting, ...]:
        """Return the federations of a data set; the paper's own if the table does not ask for others."""
        return self.settings.get(data) or self.settings.get("any") or (Setting("The paper's clients"),)

    def printed(self, data: str, setting: str, row: str, column: Column) -> float:
        """Return the paper's figure; NaN where it has none."""
        values = self.paper.get(self.source(data), {}).get(setting, {}).get(row)
        return math.nan if values is None else values[self.columns.index(column)]

    def doubted(self, data: str, setting: str, row: str, column: Column) -> bool:
        """Whether the paper contradicts the figure that it prints."""
        return any(doubt.about(row, column.key) for doubt in self.doubts_on(data, setting))

    def doubts_on(self, data: str, setting: str) -> tuple[Doubt, ...]:
        """Return the contradictions in the figures that are shown."""
        return tuple(d for d in self.doubts if (d.data, d.setting) == (self.source(data), setting))


@dataclass(frozen=True)
class Source:
    """A data set of the paper: its attributes, ours and the paper's, and the experiment's configuration."""

    name: str
    title: str
    attributes: tuple[str, ...]
    paper_attributes: tuple[str, ...]
    config: Mapping[str, Any]
    methods: Mapping[str, Mapping[str, Any]]
    """Settings of single methods that the paper has for this data set."""


def _read(name: str) -> dict[str, Any]:
    path = resources.files("glocalfair") / "experiments" / "paper" / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


@cache
def _data() -> dict[str, Any]:
    return _read("data")


DATA: tuple[str, ...] = tuple(_data())


def read_source(name: str) -> Source:
    """Read a data set by name.

    >>> read_source("adult").attributes
    ('sex', 'race')
    """
    if name not in DATA:
        raise unknown("data of the paper", name, DATA)
    values = dict(_data()[name])
    base = configuration.read(values["experiment"]) if "experiment" in values else {}
    return Source(
        name,
        values["title"],
        tuple(values["attributes"]),
        tuple(values["paper_attributes"]),
        {**base, **values.get("config", {})},
        values.get("methods", {}),
    )


def read_table(name: str) -> Table:
    """Read a table by name.

    >>> read_table("table1").paper["celeba"]["main"]["glocalfair"]
    (0.09, 0.1, 0.1, 0.792)
    """
    if name not in (*TABLES, FIGURES):
        raise unknown("table", name, [*TABLES, FIGURES])
    return build_table(name, _read(name))


def build_table(name: str, values: Mapping[str, Any]) -> Table:
    """Make a table of the mapping that its TOML file holds."""
    settings = values.get("federations", {})
    return Table(
        name=name,
        title=values["title"],
        claim=values["claim"],
        columns=tuple(Column(key) for key in values["columns"]),
        baseline=values["baseline"],
        rows=_rows(values["rows"], values.get("variants", ())),
        settings={
            data: tuple(from_mapping(Setting, each, "key in [[federations]]") for each in of)
            for data, of in settings.items()
        },
        budgets={key: from_mapping(Budget, each, "key in [budgets]") for key, each in values["budgets"].items()},
        paper={
            data: {setting: {row: tuple(map(float, v)) for row, v in rows.items()} for setting, rows in of.items()}
            for data, of in values.get("paper", {}).items()
        },
        figures_of=values.get("figures_of", {}),
        doubts=tuple(from_mapping(Doubt, each, "key in [[doubts]]") for each in values.get("doubts", ())),
        notes=tuple(values.get("notes", ())),
    )


def _rows(rows: list[dict[str, Any]], variants: Any) -> tuple[Row, ...]:
    """Give the rows with a method of their own, then every other row for every variant."""
    made = [
        Row(row["label"], row["method"], row.get("settings", {}), row.get("paper", row["label"]))
        for row in rows
        if "method" in row
    ]
    for variant in variants:
        for row in rows:
            if "method" not in row:
                label, both = f"{variant['label']}, {row['label']}", {**variant.get("settings", {})}
                both.update(row.get("settings", {}))
                made.append(Row(label, variant["method"], both, row["paper"], variant["label"]))
    return tuple(made)
