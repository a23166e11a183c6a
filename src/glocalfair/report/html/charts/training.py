"""Training curves: loss, and on validation data accuracy and the gaps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from glocalfair.report.html.arms import Arm
from glocalfair.report.html.charts.chart import Chart, Choice, Data, View, arm_legend
from glocalfair.report.html.markup import Html
from glocalfair.report.html.plot import Panel, axis, rounds_axis, thinned, tip
from glocalfair.report.text import at, figure, is_defined

POINTS, BANDS = 30, 3
Curve = list[tuple[int, float, float, float]]
"""Round, mean over seeds, and a standard deviation below and above it."""


def chart(arms: Sequence[Arm]) -> Chart | None:
    """Draw a panel for each measure, with a line for each method."""
    names = [attribute.name for attribute in arms[0].first.overall.attributes]
    measures: list[tuple[str, tuple[str, ...]]] = [
        ("Training loss", ("loss",)),
        ("Validation accuracy", ("validation", "accuracy")),
        *((f"Validation EOD {name}", ("validation", "eod", name)) for name in names),
    ]
    crowded = len(arms) > BANDS
    panels, rows = [], []
    for title, path in measures:
        curves = [(arm, _curve(arm, lambda record, path=path: at(record, path))) for arm in arms]  # type: ignore[misc]
        if any(curve for _, curve in curves):
            panels.append(_panel(title, curves, aside=crowded))
            rows += [_row(title, arm, curve) for arm, curve in curves if curve]
    if not panels:
        return None
    spread = ""
    if any(len(arm.runs) > 1 for arm in arms):
        shown = " of the chosen method" if crowded else ""
        spread = f"The line is the mean over the {arms[0].repeats}s, the band{shown} is ± the standard deviation."
    data = Data(("measure", "method", "first round", "halfway", "last round", "best"), tuple(rows))
    return Chart(
        id="training",
        short="Training",
        title="Training",
        text="The global model after each round. Accuracy and gaps are measured on the clients' validation rows.",
        choices=(),
        views=(View((), tuple(panels), data, arm_legend(arms), spread),),
        highlight=Choice("Method", tuple(arm.label for arm in arms)),
    )


def _curve(arm: Arm, read: Callable[[Mapping[str, Any]], Any]) -> Curve:
    found: dict[int, list[float]] = {}
    for run in arm.runs:
        for record in run.rounds:
            value = read(record)
            if is_defined(value):
                found.setdefault(int(record["round"]), []).append(float(value))
    return [(r, *_spread(values)) for r, values in sorted(found.items())]


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    mean = float(np.mean(values))
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return mean, mean - deviation, mean + deviation


def _panel(title: str, curves: Sequence[tuple[Arm, Curve]], *, aside: bool) -> Html:
    last = max((curve[-1][0] for _, curve in curves if curve), default=1)
    values = [v for _, curve in curves for point in curve for v in point[1:]]
    limits = {"low": 0.0} if "accuracy" not in title else {"low": 0.0, "high": 1.0}
    panel = Panel(title, rounds_axis(last), axis("", values, **limits))
    described = []
    for arm, curve in curves:
        if len(arm.runs) > 1:
            edges = [(r, high) for r, _, _, high in curve], [(r, low) for r, _, low, _ in curve]
            panel.area(*edges, arm.style, series=arm.label, aside=aside)
    for arm, curve in curves:
        marked = {i: _tip(arm, curve[i]) for i in thinned(len(curve), POINTS)}
        panel.curve([(r, mean) for r, mean, _, _ in curve], arm.style, marked, series=arm.label)
        if curve:
            described.append(f"{arm.label} from {figure(curve[0][1])} to {figure(curve[-1][1])}")
    return panel.svg(f"Over {last} rounds: {'; '.join(described)}")


def _tip(arm: Arm, point: tuple[int, float, float, float]) -> str:
    number, mean, low, _ = point
    extent = [f"± {figure(mean - low)} over {arm.repeats}s"] if len(arm.runs) > 1 else []
    return tip(arm.label, f"round {number}: {figure(mean)}", *extent)


def _row(title: str, arm: Arm, curve: Curve) -> tuple[str, ...]:
    means = [mean for _, mean, _, _ in curve]
    best = max(means) if "accuracy" in title else min(means)
    return (title, arm.label, *(figure(v) for v in (means[0], means[len(means) // 2], means[-1], best)))
