"""A chart: views to choose from, each with panels and the table of what they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glocalfair.report.html.arms import Arm
from glocalfair.report.html.markup import Html
from glocalfair.report.html.plot import Entry


@dataclass(frozen=True)
class Data:
    """The numbers behind a view."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class View:
    """What is seen at one choice: `key` holds the index of the option for each `Choice` of the chart."""

    key: tuple[int, ...]
    panels: tuple[Html, ...]
    data: Data
    legend: tuple[Entry, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Choice:
    """A native select: what is chosen and the options."""

    name: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class Chart:
    """A section of the report with a figure in it."""

    id: str
    short: str
    title: str
    text: str
    choices: tuple[Choice, ...]
    views: tuple[View, ...]
    highlight: Choice | None = None
    """A select that does not change the view but brings one series to the front."""


def arm_legend(arms: Sequence[Arm]) -> tuple[Entry, ...]:
    """Return the legend of arms."""
    return tuple((arm.label, arm.style, arm.label) for arm in arms)


def shown(arm: Arm) -> str:
    """Say which run of an arm a figure shows, if there are several."""
    return f"{arm.label}, {arm.first.which}" if len(arm.runs) > 1 else arm.label
