"""A FedAvg round here, in pfl-research, in Flower's simulation and in loops written by hand."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.processes import INSTALLED, measure
from benchmarks.table import Line, compared, took
from benchmarks.work import CASES, Case, Work, make

ANY = (1.3, 6, 6)
PFL = {"mlp": (4, 10, 10), "module": ANY, "vmap": ANY, "dropout": ANY}
"""Targets by case. What `torch.func.vmap` does not take has none."""
FLOWER = (6, 30, 30)
PART, TIMES = "1 Rounds: how much longer the others take", "1 Rounds: CPU of a round"
NAMES = {
    "mlp": "our MLP",
    "module": "own module of linear layers",
    "vmap": "any module (vmap)",
    "dropout": "any module, with dropout",
    "alone": "module that vmap does not take",
}
OTHERS = {
    "pfl": "pfl-research",
    "pfl-dropout": "pfl-research, with dropout",
    "flower": "Flower's simulation",
    "loop": "loop over clients by hand",
    "loader": "loop with a DataLoader",
    "limit": "matrix products alone",
}
Results = dict[str, list[dict[str, Any]]]


def engines(flower: bool) -> list[str]:
    """Name what can be measured: the peers need their own environment. Without Flower it is the short form."""
    if not flower:
        return ["mlp", "vmap", "pfl" if INSTALLED.exists() else "loader", "limit"]
    peers = ["pfl", "pfl-dropout", "flower"] if INSTALLED.exists() else []
    return [*NAMES, "loop", "loader", *peers, "limit"]


def once(engine: str, path: Path, case: Case, rounds: int) -> dict[str, Any]:
    """Measure one engine once."""
    if engine in NAMES:
        return measure("ours", path, rounds, case.per_round, engine)
    if engine in ("loop", "loader"):
        return measure("loops", path, engine)
    if engine == "limit":
        return measure("limit", "rounds", path)
    peer, _, kind = engine.partition("-")
    return measure(f"peer_{peer}", path, *filter(None, [kind]), peer=True)


def check(engine: str, result: dict[str, Any], work: Work, like: float) -> None:
    """Make sure that an engine did the same work: the same clients, as many steps, and a model as good."""
    steps = sum(work.steps(number) for number in range(len(work.participants)))
    assert result["steps"] == steps, f"{engine}: {result['steps']} steps instead of {steps}"
    # The others are told who takes part.
    assert engine not in NAMES or result["participants"] == work.participants.tolist(), f"{engine}: other clients"
    start = work.loss(work.weights)
    assert like < start, "nothing was learnt"
    # Batches are drawn in other orders, so the losses agree to a part of what was learnt.
    room = 0.1 * (start - like) + 0.005
    assert abs(result["loss"] - like) < room, f"{engine}: loss {result['loss']} instead of {like}"


def turns(case: Case, rounds: int, repetitions: int, flower: bool) -> Results:
    """Measure all engines in turn, several times over."""
    results: Results = {name: [] for name in engines(flower)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "work.npz"
        work = make(case)
        work.save(path)
        first = once("mlp", path, case, rounds)
        work = dataclasses.replace(work, participants=np.array(first["participants"]))
        work.save(path)
        order = np.random.default_rng(0)
        for _ in range(repetitions):
            # In another order each time: nobody always runs in the wake of the same engine.
            for engine in order.permutation(list(results)).tolist():
                # A single turn of it has been measured already.
                known = engine == "mlp" and repetitions == 1
                results[engine].append(first if known else once(engine, path, case, rounds))
                if engine != "limit":  # which trains no model
                    check(engine, results[engine][-1], work, first["loss"])
    return results


def lines(cases: Sequence[Case], rounds: int, repetitions: int, flower: bool) -> Iterator[Line]:
    """Compare on every case."""
    for case in cases:
        number = [known.name for known in CASES].index(case.name)
        found = turns(case, rounds, repetitions, flower)
        mlp = found["mlp"]
        for kind, name in ((kind, name) for kind, name in NAMES.items() if kind in found):
            pfl = found.get("pfl-dropout" if kind == "dropout" else "pfl")
            if pfl:
                target = PFL[kind][number] if kind in PFL else None
                yield compared(PART, f"pfl-research / {name}", case.name, pfl, found[kind], target)
        if "flower" in found:
            # Its clock, of many processes, ticks too slowly for a median.
            mean = [result["mean"] for result in mlp]
            yield compared(PART, f"Flower / {NAMES['mlp']}", case.name, found["flower"], mean, FLOWER[number])
        if "loader" in found:
            yield compared(PART, f"DataLoader loop / {NAMES['mlp']}", case.name, found["loader"], mlp)
        yield compared(PART, f"{NAMES['mlp']} / its matrix products alone", case.name, mlp, found["limit"])
        for engine, results in found.items():
            yield took(TIMES, {**NAMES, **OTHERS}[engine], case.name, results)
