"""Train for thousands of rounds with random dropouts and watch memory, file handles and the log: ``make soak``.

Writes the measured curve to docs/img/soak.svg and its table into docs/reliability.md.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from fault_table import PAGE, ROOT, put

from glocalfair.config import load
from glocalfair.experiment import Experiment
from glocalfair.runs import RunDirectory

BEGIN, END = "<!-- soak: written by make soak -->", "<!-- soak: end -->"
FIGURE = ROOT / "docs" / "img" / "soak.svg"
SETTINGS = {
    "data.rows": 600,
    "data.clients": 10,
    "data.features": 4,
    "model.hidden": [8],
    "method.name": "glocalfair",
    "train.dropout": 0.3,
    "train.batch_size": 32,
    "run.checkpoint_every": 10,
}


class Point(NamedTuple):
    """What was seen after a round."""

    round: int
    memory: float
    """Resident memory in MB."""
    handles: int
    log: float
    """Size of rounds.jsonl in kB."""


def look(number: int, directory: RunDirectory) -> Point:
    """Ask the kernel about this process, and the disk about its log."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    handles = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    return Point(number, pages * os.sysconf("SC_PAGE_SIZE") / 1e6, handles, directory.rounds.stat().st_size / 1e3)


def soak(rounds: int, every: int, folder: Path) -> list[Point]:
    """Train and look after every so many rounds."""
    config = load("synthetic", [*SETTINGS.items(), ("train.rounds", rounds)])
    directory = RunDirectory.create(folder, config)
    seen: list[Point] = []

    def on_round(record: object) -> None:
        number = record["round"]  # type: ignore[index]
        if number % every == 0:
            seen.append(look(number, directory))

    Experiment.prepare(config).run(directory, on_round=on_round)
    return seen


def slope(points: list[Point], name: str) -> tuple[float, float]:
    """Fit a line; return its rise per 1,000 rounds and the largest distance of a point from it."""
    x, y = np.array([p.round for p in points]), np.array([getattr(p, name) for p in points])
    rise, start = np.polyfit(x, y, 1)
    return float(1000 * rise), float(np.abs(y - rise * x - start).max())


def table(points: list[Point], seconds: float) -> str:
    """Return the Markdown: ten points, the fitted slopes over the second half, and what they say."""
    rounds, late = points[-1].round, points[len(points) // 2 :]
    (memory, _), (log, off) = slope(late, "memory"), slope(late, "log")
    handles = {p.handles for p in points}
    lines = ["| round | memory (MB) | file handles | log (kB) |", "|---:|---:|---:|---:|"]
    shown = points[:: max(1, len(points) // 10)][:10] + points[-1:]
    lines += [f"| {p.round:,} | {p.memory:.1f} | {p.handles} | {p.log:,.0f} |" for p in dict.fromkeys(shown)]
    lines += [
        "",
        f"{rounds:,} rounds in {seconds:.0f} s. In the second half memory changed by {memory:+.2f} MB per 1,000 "
        f"rounds; file handles were between {min(handles)} and {max(handles)}; the log grew by {log:,.0f} kB per 1,000 "
        f"rounds, nowhere more than {100 * off / points[-1].log:.1f} % of its final size away from a straight line.",
    ]
    return "\n".join(lines)


def svg(points: list[Point]) -> str:
    """Draw the three curves side by side, each from 0."""
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 200" font-family="sans-serif" font-size="12">']
    last = points[-1].round
    for i, (name, title) in enumerate((("memory", "memory, MB"), ("handles", "file handles"), ("log", "log, kB"))):
        values = [getattr(p, name) for p in points]
        left, top = 20 + 240 * i, max(values)
        path = " ".join(
            f"{left + 200 * p.round / last:.1f},{170 - 130 * v / top:.1f}" for p, v in zip(points, values, strict=True)
        )
        parts += [
            f'<text x="{left}" y="20">{title}: {values[-1]:,.0f} at the end</text>',
            f'<path d="M{left} 40V170H{left + 200}" fill="none" stroke="#999"/>',
            f'<polyline points="{path}" fill="none" stroke="#1f6feb" stroke-width="2"/>',
            f'<text x="{left + 200}" y="186" text-anchor="end" fill="#666">{last:,} rounds</text>',
        ]
    return "\n".join([*parts, "</svg>\n"])


def main() -> None:
    """Run, print, and write the page unless told not to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--every", type=int, default=20, help="look after every so many rounds")
    parser.add_argument("--dry", action="store_true", help="print the table and write nothing")
    given = parser.parse_args()
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        points = soak(given.rounds, given.every, Path(folder) / "run")
    content = table(points, time.perf_counter() - begun)
    print(content)
    if not given.dry:
        FIGURE.write_text(svg(points), encoding="utf-8")
        PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), content, BEGIN, END), encoding="utf-8")


if __name__ == "__main__":
    main()
