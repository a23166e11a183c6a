"""The matrix products of the work and nothing else: no engine that computes them can be faster."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.clock import Laps, report, timed
from benchmarks.work import BATCH, FEATURES, HIDDEN, Work

SIZES = (FEATURES, *HIDDEN, 1)
TOGETHER = 30
"""So many batches are multiplied by one call."""


def products() -> tuple[Callable[[], None], Callable[[], None]]:
    """Return what multiplies `TOGETHER` batches as a step does, forth and back, and what does so forth alone."""
    rng = np.random.default_rng(0)

    def matrices(rows: int, columns: int) -> np.ndarray:
        return rng.standard_normal((TOGETHER, rows, columns), dtype=np.float32)

    forth, back = [], []
    for inputs, outputs in pairwise(SIZES):
        shown, weights, slopes = matrices(BATCH, inputs), matrices(inputs, outputs), matrices(BATCH, outputs)
        forth.append((shown, weights))
        back.append((shown.transpose(0, 2, 1), slopes))
        if inputs in HIDDEN:  # nobody asks for the slope of the first layer's inputs
            back.append((slopes, weights.transpose(0, 2, 1)))

    def of(pairs: list[tuple[np.ndarray, np.ndarray]]) -> Callable[[], None]:
        room = [np.matmul(left, right) for left, right in pairs]

        def multiply() -> None:
            for (left, right), out in zip(pairs, room, strict=True):
                np.matmul(left, right, out=out)

        return multiply

    return of(forth + back), of(forth)


def rounds(path: str) -> None:
    """Multiply for as many rows as each round has."""
    work, (both, _) = Work.load(Path(path)), products()
    laps, due = Laps(), 0.0
    laps.mark()
    for chosen in work.participants:
        # What is less than a call is left to the next round.
        due += float(np.diff(work.edges)[chosen].sum()) / (BATCH * TOGETHER)
        for _ in range(int(due)):
            both()
        due %= 1
        laps.mark()
    report(laps.mean(skip=2))


def glocalfair(rows: str) -> None:
    """Report how much dearer GLocalFair is in products and sorting alone, for a client with so many rows.

    It looks at every row before it trains, and the server sorts its weights.
    """
    both, forth = products()
    weights = sum((inputs + 1) * outputs for inputs, outputs in pairwise(SIZES))
    models = np.random.default_rng(0).standard_normal((TOGETHER, weights), dtype=np.float32)

    def sort() -> None:
        magnitudes = np.abs(models)
        magnitudes.sort()

    # In turn: what disturbs the machine disturbs all three.
    turns = [[timed(work).cpu for work in (both, forth, sort)] for _ in range(500)]
    step, look, sorting = np.median(turns, axis=0).tolist()
    batches = float(rows) / BATCH
    report(ratio=1 + (batches * look + sorting) / (batches * step))


if __name__ == "__main__":
    {"rounds": rounds, "glocalfair": glocalfair}[sys.argv[1]](*sys.argv[2:])
