"""Who holds what: a heat map of the federation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glocalfair.report.html.arms import Arm
from glocalfair.report.html.charts.chart import Chart, Choice, Data, View
from glocalfair.report.html.markup import Html, join, tag
from glocalfair.report.html.plot import drawing

ROWS = 40
_NAME, _CELL, _LINE = 104, 64, 26


def chart(arms: Sequence[Arm]) -> Chart | None:
    """Draw the federation of each seed, as far as they differ."""
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for arm in arms:
        for run in arm.runs:
            if run.federation is not None:
                name = f"{run.config.get('partition', {}).get('name', '')}, {run.which}"
                same = [k for k, (_, told) in found.items() if told == run.federation]
                if not same:
                    found[f"{len(found)}"] = (name, run.federation)
    if not found:
        return None
    kept = list(found.values())[:8]
    return Chart(
        id="holdings",
        short="Who holds what",
        title="Who holds what",
        text="Rows of each client by group; the darker, the larger the group's share of the client. Where a column is "
        "empty, the client cannot measure a gap for that group.",
        choices=(Choice("Federation", tuple(name for name, _ in kept)),) if len(kept) > 1 else (),
        views=tuple(_view((i,) if len(kept) > 1 else (), told) for i, (_, told) in enumerate(kept)),
    )


def _view(key: tuple[int, ...], told: Mapping[str, Any]) -> View:
    names, cells, counts = told["names"], told["cells"], told["counts"]
    rows = [sum(parts) for parts in told["parts"]]
    # The largest clients, in the federation's order; the global test set is the last row.
    clients = sorted(sorted(range(len(names) - 1), key=lambda i: -rows[i])[:ROWS])
    shown = [*clients, len(names) - 1]
    parts = [_headings([*cells, "positive"])]
    for place, i in enumerate(shown):
        y = 46 + place * _LINE + (8 if i == len(names) - 1 else 0)
        shares = [count / rows[i] if rows[i] else 0.0 for count in counts[i]]
        positive = told["positives"][i] / rows[i] if rows[i] else None
        parts.append(_line(names[i], y, cells, counts[i], shares, positive, rows[i]))
    width = _NAME + _CELL * (len(cells) + 1) + 4
    svg = drawing(
        width,
        46 + len(shown) * _LINE + 12,
        "Rows by client and group",
        f"{len(names) - 1} clients, {len(cells)} groups; the table below has the numbers",
        *parts,
    )
    left_out = [f"The {ROWS} largest of {len(names) - 1} clients are drawn."] if len(clients) < len(names) - 1 else []
    unused = [f"{told['unused']:,} rows are unused."] if told.get("unused") else []
    return View(key, (svg,), _data(told, shown, rows), note=" ".join([*left_out, *unused]))


def _headings(columns: Sequence[str]) -> Html:
    written = []
    for i, name in enumerate(columns):
        x = _NAME + i * _CELL + _CELL / 2
        for line, part in enumerate(name.split("·")[:2]):
            written.append(tag("text", _cut(part, 10), x=x, y=18 + 14 * line, class_="tick mid"))
    return join(*written)


def _line(
    name: str,
    y: float,
    cells: Sequence[str],
    counts: Sequence[int],
    shares: Sequence[float],
    positive: float | None,
    rows: int,
) -> Html:
    parts = [tag("text", _cut(name, 16), x=2, y=y + 17, class_="name")]
    for i, (cell, count, share) in enumerate(zip(cells, counts, shares, strict=True)):
        x = _NAME + i * _CELL
        told = f"{name}\n{cell}: {count:,} of {rows:,} rows ({100 * share:.0f} %)"
        box = {"x": x + 1, "y": y, "width": _CELL - 2, "height": _LINE - 2, "rx": 3}
        parts.append(tag("rect", class_="heat", fill_opacity=f"{0.04 + 0.96 * share:.2f}", data_tip=told, **box))
        tone = "strong" if share > 0.8 else "medium" if share > 0.6 else "weak"
        parts.append(tag("text", f"{count:,}", x=x + _CELL / 2, y=y + 16, class_=f"cell mid {tone}"))
    rate = "–" if positive is None else f"{100 * positive:.0f} %"
    place = _NAME + len(cells) * _CELL + _CELL / 2
    parts.append(tag("text", rate, x=place, y=y + 16, class_="cell mid weak"))
    return join(*parts)


def _data(told: Mapping[str, Any], shown: Sequence[int], rows: Sequence[int]) -> Data:
    header = ("client", "rows", "train", "validation", "test", "positive", *told["cells"])
    lines = []
    for i in shown:
        rate = f"{100 * told['positives'][i] / rows[i]:.1f} %" if rows[i] else "–"
        numbers = [f"{n:,}" for n in told["parts"][i]]
        lines.append((told["names"][i], f"{rows[i]:,}", *numbers, rate, *(f"{n:,}" for n in told["counts"][i])))
    return Data(header, tuple(lines))


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
