"""What a client's constraints ask for and get: λ and violation, round by round."""

from __future__ import annotations

from collections.abc import Sequence

from glocalfair.report.html.arms import Arm
from glocalfair.report.html.charts.chart import Chart, Choice, Data, View, shown
from glocalfair.report.html.markup import Html
from glocalfair.report.html.plot import Panel, axis, rounds_axis, thinned, tip
from glocalfair.report.text import constraints as told_constraints
from glocalfair.report.text import figure, is_defined

CLIENTS, POINTS = 8, 16
Series = dict[str, list[tuple[int, float]]]
"""Constraint → round and value."""


def chart(arms: Sequence[Arm]) -> Chart | None:
    """Draw one view for each method with constraints and each client (of many: some)."""
    told = [(arm, _clients(arm)) for arm in arms]
    told = [(arm, clients) for arm, clients in told if clients]
    if not told:
        return None
    names = sorted({name for _, clients in told for name in clients})
    views: list[View] = []
    constraints: dict[str, int] = {}
    for i, (arm, clients) in enumerate(told):
        for client in clients:
            multipliers, violations = _series(arm, client, "multiplier"), _series(arm, client, "violation")
            for name in multipliers:
                constraints.setdefault(name, len(constraints))
            views.append(_view((i, names.index(client)), client, multipliers, violations, constraints))
    return Chart(
        id="constraints",
        short="Constraints",
        title="Constraints: λ and violation",
        text="λ is how hard a client pushes against a constraint, the violation what is left of it: above the line at "
        "0 the bound τ is broken, below it is kept.",
        choices=(Choice("Method", tuple(shown(arm) for arm, _ in told)), Choice("Client", tuple(names))),
        views=tuple(views),
        highlight=Choice("Constraint", tuple(constraints)),
    )


def _clients(arm: Arm) -> list[str]:
    found = {
        name
        for record in arm.first.rounds
        for name, diagnostics in record.get("clients", {}).items()
        if told_constraints(diagnostics)
    }
    ordered = sorted(found)
    return [ordered[i] for i in thinned(len(ordered), CLIENTS)]


def _series(arm: Arm, client: str, key: str) -> Series:
    found: Series = {}
    for record in arm.first.rounds:
        for constraint in told_constraints(record.get("clients", {}).get(client, {})):
            values = found.setdefault(str(constraint["name"]), [])
            if is_defined(constraint.get(key)):
                values.append((int(record["round"]), float(constraint[key])))
    return found


def _view(key: tuple[int, ...], client: str, multipliers: Series, violations: Series, numbers: dict[str, int]) -> View:
    panels = (_panel(f"λ at {client}", multipliers, numbers), _panel(f"Violation at {client}", violations, numbers))
    header = ("constraint", "rounds", "λ first", "λ last", "violation first", "violation last")
    rows = tuple(
        (name, str(len(values)), *_ends(values), *_ends(violations.get(name, [])))
        for name, values in multipliers.items()
    )
    return View(key, panels, Data(header, rows), tuple((name, numbers[name], name) for name in multipliers))


def _ends(values: Sequence[tuple[int, float]]) -> tuple[str, str]:
    return (figure(values[0][1]), figure(values[-1][1])) if values else ("–", "–")


def _panel(title: str, series: Series, numbers: dict[str, int]) -> Html:
    last = max((r for values in series.values() for r, _ in values), default=1)
    panel = Panel(title, rounds_axis(last), axis("", [0.0, *(v for values in series.values() for _, v in values)]))
    panel.rule(y=0, kind="rule")
    for name, values in series.items():
        marked = {i: tip(name, f"round {values[i][0]}: {figure(values[i][1])}") for i in thinned(len(values), POINTS)}
        panel.curve([(float(r), v) for r, v in values], numbers[name], marked, series=name)
    ends = (f"{name} ends at {figure(values[-1][1])}" for name, values in series.items() if values)
    return panel.svg("; ".join(ends))
