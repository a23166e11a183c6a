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

from benchmarks.clock import Laps, forget_peak, peak_megabytes, report
from benchmarks.processes import measure
from benchmarks.table import Line, compared, middle, took
from glocalfair.config import build
from glocalfair.experiment import Experiment
from glocalfair.runs import RunDirectory

ROWS_EACH = 20
PER_ROUND = 100
FEATURES = 20
MODEL, LARGER = "32,16", "96,32"
"""Hidden layers: the second has four times as many weights."""
PART, GROWTH = f"5 Scale: {PER_ROUND} clients a round, of ever more", "5 Scale: growth of a round"
TIME, MEMORY = "CPU of a round", "memory of the run"
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
    laps, reading = Laps(), peak_megabytes()
    forget_peak()
    with tempfile.TemporaryDirectory() as folder:
        directory = RunDirectory.create(Path(folder) / "run", config)
        laps.mark()
        ready.complete(directory, on_round=lambda record: laps.mark())
    # The last round evaluates; the first one enrols everybody.
    memory = {"data": data, "reading": reading, "running": peak_megabytes()}
    report(laps.median(skip=2), prepare=begun.wall, weights=weights, **memory)


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
            what = method + ", everybody evaluated" * (evaluate == 1)
            what += f", {results[0]['weights']:,} weights" * (hidden == LARGER)
            yield took(PART, f"{what}: {TIME}", f"{k:,} clients", results)
            if (evaluate, hidden) == (rounds, MODEL):
                yield from _memory(method, f"{k:,} clients", results)
        usual, last = found[most, rounds, MODEL], f"{most:,} clients"
        yield compared(PART, f"{method}: a round / one at {least:,} clients", last,
                       usual, found[least, rounds, MODEL], target=1.5, better="less")  # fmt: skip
        if whole:
            yield _by_model(method, last, most, usual, found[most, rounds, LARGER])


def _memory(method: str, case: str, results: Sequence[dict[str, Any]]) -> Iterator[Line]:
    told = {
        MEMORY: ("running", "MB"),
        "memory while data are read": ("reading", "MB"),
        "data alone": ("data", "MB"),
        "ready after, wall": ("prepare", "s"),
    }
    for what, (key, unit) in told.items():
        yield Line(PART, f"{method}: {what}", case, middle(results, key), unit)


def _by_model(
    method: str, case: str, clients: int, small: Sequence[dict[str, Any]], large: Sequence[dict[str, Any]]
) -> Line:
    """Tell how much memory a larger model takes, beside what it would take if every client had one."""
    more = large[0]["weights"] - small[0]["weights"]
    each = clients * more * 4 / 2**20
    taken = middle(large, "running") - middle(small, "running")
    what = f"{method}: memory that {more:,} more weights take / {each:,.0f} MB, if each client had them"
    return Line(PART, what, case, taken / each, "×", 0.1, "less")


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
        cpu = [middle(r) for r in results]
        yield Line(GROWTH, "exponent of a round's CPU", what, exponent(sizes, cpu), "", 1.1, "less")
        for factor, cost in zip(factors, cpu, strict=True):
            yield Line(GROWTH, f"CPU of a round, {factor} ×", what, 1000 * cost, "ms")


if __name__ == "__main__":
    main(*sys.argv[1:])
