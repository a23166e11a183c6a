"""Lorenz curves of the clients' weights, whose Gini coefficients GLocalFair's server clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glocalfair.report.html.arms import Arm
from glocalfair.report.html.charts.chart import Chart, Choice, Data, View, shown
from glocalfair.report.html.plot import Axis, Panel, axis, thinned, tip
from glocalfair.report.text import at, figure

ROUNDS, CLIENTS = 10, 16
_SHARES = tuple((share, text) for share, text in ((0.0, "0"), (0.25, ".25"), (0.5, ".5"), (0.75, ".75"), (1.0, "1")))


def chart(arms: Sequence[Arm]) -> Chart | None:
    """Draw one view for each method that looks at Gini and each of ten rounds."""
    found = [(arm, [r for r in arm.first.rounds if "lorenz" in r.get("server", {})]) for arm in arms]
    found = [(arm, records) for arm, records in found if records]
    if not found:
        return None
    kept = [(arm, [records[i] for i in thinned(len(records), ROUNDS)]) for arm, records in found]
    numbers = sorted({int(record["round"]) for _, records in kept for record in records}, reverse=True)
    clients = sorted({name for _, records in kept for record in records for name in record["server"]["lorenz"]})
    views = [
        _view((i, numbers.index(int(record["round"]))), arm, record, clients)
        for i, (arm, records) in enumerate(kept)
        for record in reversed(records)
    ]
    return Chart(
        id="lorenz",
        short="Lorenz",
        title="Lorenz curves of the clients' weights",
        text="The smallest so many of a client model's weights hold that share of all its magnitude. The further a "
        "curve sags below the diagonal, the larger its Gini coefficient, by which the server clusters the clients. "
        "The second panel shows the same curves from nearby.",
        choices=(
            Choice("Method", tuple(shown(arm) for arm, _ in kept)),
            Choice("Round", tuple(map(str, numbers))),
        ),
        views=tuple(views),
        highlight=Choice("Client", tuple(clients)),
    )


def _view(key: tuple[int, ...], arm: Arm, record: Mapping[str, Any], names: Sequence[str]) -> View:
    server, number = record["server"], record["round"]
    gini: Mapping[str, float] = server.get("gini", {})
    ordered = sorted(server["lorenz"], key=lambda name: gini.get(name, 0.0))
    drawn = [ordered[i] for i in thinned(len(ordered), CLIENTS)]
    x = Axis("share of the weights, smallest first", 0, 1, _SHARES)
    whole = Panel(f"Round {number}", x, Axis("share of the magnitude", 0, 1, _SHARES), height=340, left=48)
    whole.diagonal()
    mean = np.mean([server["lorenz"][name] for name in ordered], axis=0)
    away = {name: (np.asarray(server["lorenz"][name]) - mean).tolist() for name in drawn}
    y = axis("difference", [0.0, *(v for values in away.values() for v in values)])
    apart = Panel("Difference from the mean curve of the round", x, y, height=340, left=58)
    apart.rule(y=0)
    rows = []
    for name in drawn:
        gaps = ", ".join(f"EOD {a} {figure(v)}" for a, v in (_eod(record, name)).items())
        text = tip(name, f"Gini {figure(gini.get(name))}", *([gaps] if gaps else []))
        for panel, curve in ((whole, server["lorenz"][name]), (apart, away[name])):
            points = [(i / (len(curve) - 1), value) for i, value in enumerate(curve)]
            panel.curve(points, names.index(name), {len(points) * 7 // 10: text}, r=3.5, series=name)
    attributes = [a.name for a in arm.first.overall.attributes]
    for name in ordered:
        told = _eod(record, name)
        cells = [figure(gini.get(name)), str(at(server, ("cluster", name))), figure(at(server, ("coefficients", name)))]
        rows.append((name, *cells, *(figure(told.get(a)) for a in attributes)))
    header = ("client", "Gini", "cluster", "weight", *(f"EOD {a}" for a in attributes))
    described = ", ".join(f"{name} {figure(gini.get(name))}" for name in drawn)
    entries = tuple((f"{name}  Gini {figure(gini.get(name))}", names.index(name), name) for name in drawn)
    left_out = f"{len(drawn)} of {len(ordered)} clients are drawn. " if len(drawn) < len(ordered) else ""
    note = f"{left_out}EOD of a client's model is measured on all clients' validation rows."
    panels = (whole.svg(f"Gini: {described}"), apart.svg("Below 0: a larger Gini than the others"))
    return View(key, panels, Data(header, tuple(rows)), entries, note)


def _eod(record: Mapping[str, Any], client: str) -> Mapping[str, float]:
    return at(record, ("client_models", client, "eod")) or {}
