"""Two small pictures as SVG: a round in every engine, and memory and time against the number of clients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from benchmarks import rounds, scale
from benchmarks.table import Line, figure

Point = tuple[float, float]
WIDTH, HEIGHT, MARGIN = 340, 220, 48
COLOURS = {"fedavg": "#3b6fb6", "glocalfair": "#c2571a"}
OURS, OTHERS = "#c2571a", "#8a8f98"
BAR, NAMES, PANEL = 18, 180, 170
"""Height of a bar's row, width of the names, width of a case."""


def _picture(width: int, height: int, drawing: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>{drawing}</svg>\n'
    )


def speeds(lines: Sequence[Line]) -> str:
    """Draw the CPU time of a round, a panel for each case and a bar for each engine, on a logarithmic axis."""
    cost = {(line.what, line.case): line.value for line in lines if line.part == rounds.TIMES}
    if not cost:
        return _picture(1, 1, "")
    engines, cases = (list(dict.fromkeys(key[axis] for key in cost)) for axis in (0, 1))
    engines.sort(key=lambda name: fmean(math.log(cost[name, case]) for case in cases if (name, case) in cost))
    low, high = (math.log10(f(cost.values())) for f in (min, max))
    text = []
    for row, name in enumerate(engines):
        text.append(f'<text x="{NAMES - 8}" y="{40 + row * BAR}" text-anchor="end">{name}</text>')
    for column, case in enumerate(cases):
        left = NAMES + column * PANEL
        text.append(f'<text x="{left}" y="16" font-weight="bold">{case}</text>')
        for row, name in enumerate(engines):
            if (name, case) not in cost:
                continue
            value = cost[name, case]
            # The shortest bar can still be seen, and the longest leaves room for its figure.
            long = 4 + (math.log10(value) - low) / max(high - low, 1e-9) * (PANEL - 70)
            colour = OURS if name in rounds.NAMES.values() else OTHERS
            top = 30 + row * BAR
            text.append(f'<rect x="{left}" y="{top}" width="{long:.1f}" height="{BAR - 5}" fill="{colour}"/>')
            text.append(f'<text x="{left + long + 5:.1f}" y="{top + 10}">{figure(value)}</text>')
    bottom = 40 + len(engines) * BAR + 8
    text.append(f'<text x="{NAMES}" y="{bottom}">ms of CPU a round, logarithmic; ours in colour</text>')
    return _picture(NAMES + len(cases) * PANEL, bottom + 10, "".join(text))


def growth(lines: Sequence[Line]) -> str:
    """Draw time a round and memory over clients, both axes logarithmic; nothing to draw gives an empty picture."""
    curves: dict[str, dict[str, list[Point]]] = {scale.TIME: {}, scale.MEMORY: {}}
    for line in lines:
        method, _, kind = line.what.partition(": ")
        if line.part == scale.PART and kind in curves and method in COLOURS:
            clients = float(line.case.removesuffix(" clients").replace(",", ""))
            curves[kind].setdefault(method, []).append((clients, line.value))
    time, memory = (
        _panel(curves[scale.TIME], "ms CPU a round", 0),
        _panel(curves[scale.MEMORY], "MB at the peak of a run", WIDTH + 20),
    )
    return _picture(2 * WIDTH + 20, HEIGHT, time + memory)


def _panel(curves: dict[str, list[Point]], title: str, left: int) -> str:
    points = [point for curve in curves.values() for point in curve]
    if not points:
        return ""
    low_x, high_x = (math.log10(f(x for x, _ in points)) for f in (min, max))
    low_y, high_y = math.floor(math.log10(min(y for _, y in points))), math.ceil(math.log10(max(y for _, y in points)))

    def x_of(value: float) -> float:
        return left + MARGIN + (math.log10(value) - low_x) / max(high_x - low_x, 1e-9) * (WIDTH - MARGIN - 70)

    def y_of(value: float) -> float:
        return HEIGHT - MARGIN - (math.log10(value) - low_y) / max(high_y - low_y, 1) * (HEIGHT - MARGIN - 30)

    text = [f'<text x="{left + MARGIN}" y="16" font-weight="bold">{title}</text>']
    for power in range(low_y, high_y + 1):
        y = y_of(10.0**power)
        text.append(f'<line x1="{left + MARGIN}" x2="{left + WIDTH - 60}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        text.append(f'<text x="{left + MARGIN - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:,.0f}</text>')
    for clients in sorted({x for x, _ in points}):
        text.append(f'<text x="{x_of(clients):.1f}" y="{HEIGHT - 28}" text-anchor="middle">{clients:,.0f}</text>')
    text.append(f'<text x="{left + MARGIN}" y="{HEIGHT - 8}">clients, {scale.PER_ROUND} of them a round</text>')
    lowest = 0.0
    for name, curve in sorted(curves.items(), key=lambda item: -item[1][-1][1]):
        colour = COLOURS[name]
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in curve)
        text.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        # From above: two curves that end close together keep their names apart.
        lowest = max(y_of(curve[-1][1]) + 4, lowest + 14)
        text.append(f'<text x="{x_of(curve[-1][0]) + 5:.1f}" y="{lowest:.1f}" fill="{colour}">{name}</text>')
    return "".join(text)
