"""A comparison of six methods over many seeds: on all cores, and one run after the other."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from benchmarks.clock import Laps, report, tree_cpu
from benchmarks.processes import measure
from benchmarks.table import Line, middle, ratio
from glocalfair.cores import cores

METHODS = "fedavg,qffl,gifair,fairfed,fedfb,glocalfair"


def main(seeds: str, rounds: str, workers: str) -> None:
    """Run ``glocalfair compare`` and report the time."""
    from glocalfair.cli import main as program

    laps = Laps(tree_cpu)
    with tempfile.TemporaryDirectory() as folder:
        laps.mark()
        arguments = ["compare", "adult", "--methods", METHODS, "--seeds", seeds, "--rounds", rounds, "--quiet"]
        done = CliRunner().invoke(program, [*arguments, "--workers", workers, "--output", str(Path(folder) / "runs")])
        laps.mark()
    assert done.exit_code == 0, done.output
    report(laps.median())


def lines(seeds: int, rounds: int, repetitions: int) -> Iterator[Line]:
    """Compare as many workers as cores with one worker."""
    alone, together = [], []
    for _ in range(repetitions):
        alone.append(measure("seeds", seeds, rounds, 1))
        together.append(measure("seeds", seeds, rounds, cores()))
    wall, cpu = (f"{middle(alone, clock):.0f} and {middle(together, clock):.0f} s" for clock in ("wall", "cpu"))
    what = f"6 methods × {seeds} seeds × {rounds} rounds: one after the other / in parallel, wall"
    yield Line("4 seeds", what, ratio(alone, together, "wall"), note=f"{wall}, CPU {cpu}; {cores()} cores")


if __name__ == "__main__":
    main(*sys.argv[1:])
