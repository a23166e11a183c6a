"""Gini of a client's model against its EOD: is the one a sign of the other?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from glocalfair.report.html.arms import Arm
from glocalfair.report.html.charts.chart import Chart, Choice, Data, View
from glocalfair.report.html.correlation import Correlation, spearman
from glocalfair.report.html.markup import Html
from glocalfair.report.html.plot import Panel, axis, thinned, tip
from glocalfair.report.text import at, figure, is_defined

DOTS = 300
Pair = tuple[float, float, str]


def chart(arms: Sequence[Arm]) -> Chart | None:
    """Draw one view for each method that looks at Gini and each attribute: all rounds, and the last."""
    chosen = [arm for arm in arms if _pairs(arm, arm.first.overall.attributes[0].name, last=False)]
    if not chosen:
        return None
    names = tuple(attribute.name for attribute in chosen[0].first.overall.attributes)
    views = []
    for i, arm in enumerate(chosen):
        for j, name in enumerate(names):
            every, last = _pairs(arm, name, last=False), _pairs(arm, name, last=True)
            panels = (_panel("All rounds", arm, name, every), _panel("Last round", arm, name, last))
            rows = tuple(_row(title, spearman(*_split(p))) for title, p in (("all", every), ("last", last)))
            views.append(
                View((i, j), panels, Data(("rounds", "models", "Spearman's ρ", "95 % interval"), rows), note=_NOTE)
            )
    return Chart(
        id="gini",
        short="Gini",
        title="Gini against unfairness",
        text="Each mark is a client's model as it came to the server: the Gini coefficient of its weights and its EOD "
        "on all clients' validation rows. If Gini tells unfair models apart, the marks rise to the right.",
        choices=(Choice("Method", tuple(arm.label for arm in chosen)), Choice("Attribute", names)),
        views=tuple(views),
    )


_NOTE = (
    "ρ is Spearman's rank correlation, its interval Fisher's z with the standard error of Bonett and Wright. It takes "
    "the models for independent; models of one client in neighbouring rounds are not, so over all rounds it is too "
    "narrow."
)


def _pairs(arm: Arm, attribute: str, *, last: bool) -> list[Pair]:
    found = []
    for run in arm.runs:
        records = [r for r in run.rounds if "client_models" in r and "gini" in r.get("server", {})]
        for record in records[-1:] if last else records:
            for client, value in record["server"]["gini"].items():
                gap = at(record, ("client_models", client, "eod", attribute))
                if is_defined(value) and is_defined(gap):
                    which = f", {run.which}" if len(arm.runs) > 1 else ""
                    found.append((float(value), float(gap), f"{client}, round {record['round']}{which}"))
    return found


def _split(pairs: Sequence[Pair]) -> tuple[list[float], list[float]]:
    return [gini for gini, _, _ in pairs], [gap for _, gap, _ in pairs]


def _written(found: Correlation) -> str:
    if math.isnan(found.rho):
        return f"ρ undefined, {found.n} models"
    ends = "" if math.isnan(found.low) else f" ({figure(found.low)} to {figure(found.high)})"
    return f"ρ = {figure(found.rho)}{ends}, {found.n} models"


def _panel(title: str, arm: Arm, attribute: str, pairs: Sequence[Pair]) -> Html:
    gini, gaps = _split(pairs)
    found = spearman(gini, gaps)
    x, y = axis("Gini of the weights", gini, low=0.0, high=1.0), axis(f"EOD {attribute}", gaps, low=0.0, high=1.0)
    panel = Panel(title, x, y, left=52, subtitle=_written(found))
    for index in thinned(len(pairs), DOTS):
        value, gap, name = pairs[index]
        text = tip(name, f"Gini {figure(value)}, EOD {figure(gap)}")
        panel.dot((value, gap), arm.style, text, kind="dot faint")
    return panel.svg(_written(found))


def _row(title: str, found: Correlation) -> tuple[str, ...]:
    ends = "–" if math.isnan(found.low) else f"{figure(found.low)} to {figure(found.high)}"
    return title, str(found.n), figure(found.rho, "undefined"), ends
