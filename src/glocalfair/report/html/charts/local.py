"""How the clients' own gaps are distributed, method by method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glocalfair.report.html.arms import Arm
from glocalfair.report.html.charts.chart import Chart, Choice, Data, View
from glocalfair.report.html.markup import Html, tag
from glocalfair.report.html.plot import WIDTH, Axis, Panel, axis, drawing, style, thinned, tip
from glocalfair.report.text import at, figure, is_defined

DOTS = 80
_ROW = 42


@dataclass(frozen=True)
class _Sample:
    arm: Arm
    points: list[tuple[float, str]]
    clients: int

    def quartiles(self) -> list[float]:
        return [float(q) for q in np.quantile([v for v, _ in self.points], [0.25, 0.5, 0.75])]


def chart(arms: Sequence[Arm]) -> Chart | None:
    """Draw EOD and DP-Dis for each attribute."""
    names = tuple(attribute.name for attribute in arms[0].attributes)
    views = []
    for i, name in enumerate(names):
        eod = [_sample(arm, ("eod", name)) for arm in arms]
        dp = [_sample(arm, ("dp_dis_by", name)) for arm in arms]
        panels = (_panel(f"Local EOD {name}", eod), _panel(f"Local DP-Dis {name}", dp))
        rows = (*_rows("EOD", eod), *_rows("DP-Dis", dp))
        header = ("measure", "method", "defined", "lowest", "quartile", "median", "quartile", "highest")
        views.append(View((i,), panels, Data(header, rows), note=_note(arms)))
    return Chart(
        id="local",
        short="Local fairness",
        title="Fairness inside each organisation",
        text="Each mark is a client on its own test rows; the box holds the middle half of them and its line is the "
        "median. Left is fairer. A client without two groups to compare has no gap and no mark.",
        choices=(Choice("Attribute", names),),
        views=tuple(views),
    )


def _sample(arm: Arm, path: tuple[str, ...]) -> _Sample:
    several = len(arm.runs) > 1
    found, clients = [], arm.clients()
    for run, client in clients:
        value = at(client, path)
        if is_defined(value):
            found.append((float(value), f"{client['name']}, {run.which}" if several else str(client["name"])))
    return _Sample(arm, sorted(found), len(clients))


def _note(arms: Sequence[Arm]) -> str:
    pooled = f"Clients of all {arms[0].repeats}s are pooled. " if any(len(arm.runs) > 1 for arm in arms) else ""
    return f"{pooled}Small local test sets show gaps by chance too: see the noise floor in the table above."


def _panel(title: str, samples: Sequence[_Sample]) -> Html:
    values = [v for sample in samples for v, _ in sample.points]
    if not values:
        return _nothing(title, samples[0].clients)
    x = axis("lower is fairer", [*values, 0.0], low=0.0, high=1.0)
    rows = Axis("", 0, len(samples), ())
    panel = Panel(title, x, rows, height=76 + _ROW * len(samples), left=10)
    described = []
    for i, sample in enumerate(samples):
        middle = len(samples) - i - 0.68
        _row(panel, sample, middle)
        described.append(f"{sample.arm.label}: {_summary(sample)}")
    return panel.svg("; ".join(described))


def _nothing(title: str, clients: int) -> Html:
    why = f"Undefined: none of {clients} clients has two groups to compare."
    lines = tag("text", title, x=2, y=15, class_="head"), tag("text", why, x=2, y=40, class_="name")
    return drawing(WIDTH, 56, title, why, *lines)


def _row(panel: Panel, sample: _Sample, middle: float) -> None:
    y = panel.py(middle)
    counted = f"{len(sample.points)} of {sample.clients} clients"
    panel.parts.append(tag("text", sample.arm.label, x=panel.left, y=f"{y - 13:.1f}", class_="name"))
    panel.parts.append(tag("text", counted, x=panel.width - panel.right, y=f"{y - 13:.1f}", class_="tick end"))
    if not sample.points:
        panel.parts.append(tag("text", "undefined on every client", x=panel.left, y=f"{y + 4:.1f}", class_="tick"))
        return
    low, median, high = (panel.px(q) for q in sample.quartiles())
    box = {"x": f"{low:.1f}", "y": f"{y - 8:.1f}", "width": f"{max(high - low, 1):.1f}", "height": 16, "rx": 3}
    panel.parts.append(tag("rect", class_=f"box {style(sample.arm.style)}", **box))
    for index in thinned(len(sample.points), DOTS):
        value, name = sample.points[index]
        panel.dot((value, middle), sample.arm.style, tip(name, sample.arm.label, figure(value)), kind="dot faint")
    line = f"M{median:.1f} {y - 9:.1f}v18"
    panel.parts.append(tag("path", d=line, class_=f"median {style(sample.arm.style)}"))


def _summary(sample: _Sample) -> str:
    if not sample.points:
        return f"undefined on all of {sample.clients} clients"
    low, median, high = sample.quartiles()
    return f"median {figure(median)}, middle half {figure(low)} to {figure(high)}, {len(sample.points)} clients"


def _rows(measure: str, samples: Sequence[_Sample]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for sample in samples:
        defined = f"{len(sample.points)} of {sample.clients}"
        if sample.points:
            five = [sample.points[0][0], *sample.quartiles(), sample.points[-1][0]]
            rows.append((measure, sample.arm.label, defined, *(figure(value) for value in five)))
        else:
            rows.append((measure, sample.arm.label, defined, *["–"] * 5))
    return rows
