"""Accuracy against unfairness: one point for each method, with error bars."""

from __future__ import annotations

from collections.abc import Sequence

from glocalfair.report.html.arms import Arm, Estimate
from glocalfair.report.html.charts.chart import Chart, Choice, Data, View, arm_legend
from glocalfair.report.html.plot import Panel, axis, tip
from glocalfair.report.text import figure


def chart(arms: Sequence[Arm]) -> Chart | None:
    """Draw one view for each attribute's EOD, and one for DP-Dis."""
    paths = [("eod", attribute.name) for attribute in arms[0].attributes]
    choices = [*paths, ("dp_dis",)]
    names = tuple([f"EOD {attribute}" for _, attribute in paths] + ["DP-Dis"])
    views = tuple(_view((i,), name, path, arms) for i, (name, path) in enumerate(zip(names, choices, strict=True)))
    return Chart(
        id="frontier",
        short="Frontier",
        title="Accuracy against fairness",
        text="Up is more accurate, left is fairer: the best place is the top left corner. The dashed line is the noise "
        "floor, what a perfectly fair model would show on a test set of this size.",
        choices=(Choice("Gap", names),),
        views=views,
    )


def error_bars(arms: Sequence[Arm]) -> str:
    """Say what error bars mean here."""
    several, one = any(len(a.runs) > 1 for a in arms), any(len(a.runs) == 1 for a in arms)
    words = [f"mean ± standard deviation over the {arms[0].repeats}s"] if several else []
    words += ["the 95 % bootstrap interval" + (" for a method with one run" if several else "")] if one else []
    return f"Error bars: {'; '.join(words)}."


def _view(key: tuple[int, ...], name: str, path: tuple[str, ...], arms: Sequence[Arm]) -> View:
    found = [(arm, arm.overall(*path), arm.overall("accuracy")) for arm in arms]
    drawn = [(a, x, y) for a, x, y in found if x.value is not None and y.value is not None]
    floors = [f for a in arms if (f := a.mean("global", "noise_floor", *path)) is not None]
    floor = sum(floors) / len(floors) if floors else None
    ends_x = [e for _, x, _ in drawn for e in (x.low, x.value, x.high) if e is not None]
    ends_y = [e for _, _, y in drawn for e in (y.low, y.value, y.high) if e is not None]
    panel = Panel(
        f"Accuracy and {name}, global test set",
        axis(f"{name}  (lower is fairer)", [*ends_x, *floors, 0.0], low=0.0),
        axis("accuracy", ends_y, low=0.0, high=1.0),
        width=400,
        height=300,
        left=48,
    )
    if floor is not None:
        panel.rule(x=floor, kind="rule dash")
        panel.note(floor, "noise floor")
    for arm, x, y in drawn:
        assert x.value is not None and y.value is not None
        panel.bar(low=(_or(x.low, x.value), y.value), high=(_or(x.high, x.value), y.value), number=arm.style)
        panel.bar(low=(x.value, _or(y.low, y.value)), high=(x.value, _or(y.high, y.value)), number=arm.style)
    for arm, x, y in drawn:
        assert x.value is not None and y.value is not None
        text = tip(arm.label, f"accuracy {_written(y)}", f"{name} {_written(x)}")
        panel.dot((x.value, y.value), arm.style, text, r=5.5)
    rows = tuple((a.label, _written(y), _written(x), str(len(a.runs))) for a, x, y in found)
    described = "; ".join(f"{a.label}: accuracy {figure(y.value)}, {name} {figure(x.value)}" for a, x, y in found)
    data = Data(("method", "accuracy", name, "runs"), rows)
    return View(key, (panel.svg(described),), data, arm_legend(arms), error_bars(arms))


def _or(end: float | None, value: float) -> float:
    return value if end is None else end


def _written(estimate: Estimate) -> str:
    if estimate.value is None:
        return "undefined"
    if estimate.spread is not None:
        return f"{figure(estimate.value)} ± {figure(estimate.spread)}"
    return f"{figure(estimate.value)} ({figure(estimate.low)} to {figure(estimate.high)})"
