"""Many clients: memory and time of a round as the federation grows, and exponents of the growth."""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.clock import Laps, peak_megabytes, report
from benchmarks.processes import measure
from benchmarks.table import Line, compared, middle
from glocalfair.config import build
from glocalfair.experiment import Experiment
from glocalfair.runs import RunDirectory

ROWS_EACH = 20
PER_ROUND = 100
FEATURES = 20
MODEL, LARGER = "32,16", "96,32"
"""Hidden layers: the second has four times as many weights."""
SWEEPS = ("clients a round", "rows of a client", "parameters")


def main(method: str, clients: str, per_round: str, rows: str, hidden: str, rounds: str, evaluate: str) -> None:
    """Train on synthetic data, equal clients, and report a round's time and the memory beside the data's."""
    torch.set_num_threads(1)
    config = build(
        {
            "data": {"name": "synthetic", "rows": int(clients) * int(rows), "features": FEATURES},
            "partition": {"name": "iid", "clients": int(clients), "min_rows": 1},
            "model": {"hidden": [int(size) for size in hidden.split(",")]},
            "train": {"rounds": int(rounds), "participation": int(per_round) / int(clients)},
            "method": {"name": method},
            "run": {"evaluate_every": int(evaluate)},
        }
    )
    laps = Laps()
    laps.mark()
    ready = Experiment.prepare(config)
    laps.mark()
    begun = laps.median()
    data = sum(a.nbytes for a in (ready.federation.x, ready.federation.y, ready.federation.groups)) / 2**20
    weights = len(ready.initial)
    laps, before = Laps(), peak_megabytes()
    with tempfile.TemporaryDirectory() as folder:
        directory = RunDirectory.create(Path(folder) / "run", config)
        laps.mark()
        ready.complete(directory, on_round=lambda record: laps.mark())
    # The last round evaluates; the first one enrols everybody.
    whole, last = laps.median(skip=2), {"data": data, "weights": weights, "before": before}
    report(whole, prepare=begun.wall, **last)


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Fit cost ∝ size^e by least squares in logarithms."""
    return float(np.polyfit([math.log(s) for s in sizes], [math.log(c) for c in costs], 1)[0])


def growth(
    clients: Sequence[int], rounds: int, repetitions: int, whole: bool, methods: Sequence[str]
) -> Iterator[Line]:
    """Measure rounds of 100 clients in ever larger federations.

    `whole`: the largest also evaluated in each round, and with a larger model.
    """
    least, most = min(clients), max(clients)
    for method in methods:
        # Evaluation looks at every client's validation rows: it grows with the data, a round need not.
        settings = [(k, rounds, MODEL) for k in clients]
        settings += [(most, 1, MODEL), (most, rounds, LARGER)] if whole else []
        found: dict[tuple[int, int, str], list[dict[str, Any]]] = {setting: [] for setting in settings}
        for _ in range(repetitions):
            for (k, evaluate, hidden), results in found.items():
                results.append(measure("scale", method, k, PER_ROUND, ROWS_EACH, hidden, rounds, evaluate))
        for (k, evaluate, hidden), results in found.items():
            memory, data = middle(results, "megabytes"), middle(results, "data")
            note = f"{memory:.0f} MB in all, data {data:.0f} MB; ready after {middle(results, 'prepare'):.1f} s"
            what = f"{method}, {k:,} clients, {PER_ROUND} a round" + ", all evaluated in each" * (evaluate == 1)
            what += f", {results[0]['weights']:,} weights" * (hidden == LARGER)
            wall = 1000 * middle(results, "wall")
            yield Line("5 scale", what, 1000 * middle(results), "ms", note=note, wall=wall)
        usual = found[most, rounds, MODEL]
        yield compared("5 scale", f"{method}: a round at {most:,} / at {least:,} clients",
                       usual, found[least, rounds, MODEL], target=1.5, better="less")  # fmt: skip
        if whole:
            yield _by_model(f"{method}, {most:,} clients", most, usual, found[most, rounds, LARGER])


def _by_model(name: str, clients: int, small: Sequence[dict[str, Any]], large: Sequence[dict[str, Any]]) -> Line:
    """Tell how much memory a larger model takes, beside what it would take if every client had one."""
    more = large[0]["weights"] - small[0]["weights"]
    each = clients * more * 4 / 2**20
    taken = middle(large, "megabytes") - middle(small, "megabytes")
    what = f"{name}: memory for {more:,} more weights / as much on every client"
    return Line("5 scale", what, taken / each, "×", 0.1, "less", f"{taken:.0f} and {each:.0f} MB")


def exponents(factors: Sequence[int], repetitions: int, chosen: Sequence[str] = SWEEPS) -> Iterator[Line]:
    """Fit how the cost of a round grows with clients, rows and parameters."""
    sweeps = {
        "clients a round": [(64 * f, 64 * f, 200, MODEL) for f in factors],
        "rows of a client": [(64, 64, 400 * f, MODEL) for f in factors],
        "parameters": [(32, 32, 200, f"{256 * f},256") for f in factors],
    }
    for what in chosen:
        settings = sweeps[what]
        turns = [[measure("scale", "fedavg", *s, 6, 6) for s in settings] for _ in range(repetitions)]
        results = list(zip(*turns, strict=True))
        sizes = [
            s[1] * s[2] if what != "parameters" else r[0]["weights"] for s, r in zip(settings, results, strict=True)
        ]
        cpu, wall = ([middle(r, clock) for r in results] for clock in ("cpu", "wall"))
        detail = "CPU a round: " + ", ".join(f"{1000 * cost:.0f} ms" for cost in cpu)
        yield Line("5 scale", f"exponent in {what}", exponent(sizes, cpu), "", 1.1, "less", detail,
                   wall=exponent(sizes, wall))  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
