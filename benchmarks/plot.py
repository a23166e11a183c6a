"""A small drawing of memory and time against the number of clients, as SVG."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from benchmarks.table import Line

Point = tuple[float, float]
WIDTH, HEIGHT, MARGIN = 340, 220, 48
COLOURS = {"fedavg": "#3b6fb6", "glocalfair": "#c2571a"}


def plot(lines: Sequence[Line]) -> str:
    """Draw time a round and memory over clients, both axes logarithmic; nothing to draw gives an empty picture."""
    time: dict[str, list[Point]] = {}
    memory: dict[str, list[Point]] = {}
    for line in lines:
        found = re.fullmatch(r"(\w+), ([\d,]+) clients, \d+ a round", line.what)
        if line.part == "5 scale" and found:
            clients = float(found[2].replace(",", ""))
            time.setdefault(found[1], []).append((clients, line.value))
            megabytes = re.match(r"(\d+) MB", line.note)
            assert megabytes is not None
            memory.setdefault(found[1], []).append((clients, float(megabytes[1])))
    panels = _panel(time, "ms CPU a round", 0) + _panel(memory, "MB in all", WIDTH + 20)
    size = f'width="{2 * WIDTH + 20}" height="{HEIGHT}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
        f'<rect width="100%" height="100%" fill="white"/>{panels}</svg>\n'
    )


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
    text.append(f'<text x="{left + MARGIN}" y="{HEIGHT - 8}">clients, 100 of them a round</text>')
    lowest = 0.0
    for name, curve in sorted(curves.items(), key=lambda item: -item[1][-1][1]):
        colour = COLOURS.get(name, "#555")
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in curve)
        text.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        # From above: two curves that end close together keep their names apart.
        lowest = max(y_of(curve[-1][1]) + 4, lowest + 14)
        text.append(f'<text x="{x_of(curve[-1][0]) + 5:.1f}" y="{lowest:.1f}" fill="{colour}">{name}</text>')
    return "".join(text)
