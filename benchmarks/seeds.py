"""A comparison of six methods over many seeds: on all cores, and one run after the other."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from benchmarks.clock import Laps, report, tree_cpu
from benchmarks.processes import measure
from benchmarks.table import Line, middle, ratio, ratios
from glocalfair.cores import cores

PART = "4 Many seeds"
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
        runs = {str(path.relative_to(folder)): path for path in Path(folder).rglob("model.safetensors")}
        models = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in sorted(runs.items())}
    assert done.exit_code == 0, done.output
    # Methods for a single attribute run once for each.
    assert len(models) >= int(seeds) * len(METHODS.split(",")), f"only {len(models)} runs"
    report(laps.median(), models=models)


def lines(seeds: int, rounds: int, repetitions: int) -> Iterator[Line]:
    """Compare as many workers as cores with one worker."""
    alone, together = [], []
    for _ in range(repetitions):
        alone.append(measure("seeds", seeds, rounds, 1))
        together.append(measure("seeds", seeds, rounds, cores()))
        assert alone[-1]["models"] == together[-1]["models"], "in parallel other models come out"
    case = f"6 methods × {seeds} seeds × {rounds} rounds, {cores()} cores"
    turns = ratios(alone, together, "wall")
    yield Line(PART, "one after the other / in parallel, wall", case, ratio(alone, together, "wall"), turns=turns)
    for name, results in {"one after the other": alone, "in parallel": together}.items():
        yield Line(PART, f"{name}: CPU", case, middle(results), "s", wall=middle(results, "wall"))


if __name__ == "__main__":
    main(*sys.argv[1:])
