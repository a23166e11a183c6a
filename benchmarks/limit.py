"""The matrix products of the work and nothing else: no engine that computes them can be faster."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.clock import Laps, report
from benchmarks.work import BATCH, HIDDEN, Work

TOGETHER = 30
"""So many batches are multiplied by one call."""


def main(path: str) -> None:
    """Multiply what a step multiplies, forth and back, for as many rows as each round has."""
    work = Work.load(Path(path))
    rng = np.random.default_rng(0)

    def matrices(rows: int, columns: int) -> np.ndarray:
        return rng.standard_normal((TOGETHER, rows, columns), dtype=np.float32)

    pairs = []
    for inputs, outputs in pairwise([work.x.shape[1], *HIDDEN, 1]):
        shown, weights, slopes = matrices(BATCH, inputs), matrices(inputs, outputs), matrices(BATCH, outputs)
        pairs += [(shown, weights), (shown.transpose(0, 2, 1), slopes)]
        if inputs in HIDDEN:  # nobody asks for the slope of the first layer's inputs
            pairs.append((slopes, weights.transpose(0, 2, 1)))
    room = [np.matmul(left, right) for left, right in pairs]
    laps = Laps()
    laps.mark()
    for chosen in work.participants:
        rows = int(np.diff(work.edges)[chosen].sum())
        for _ in range(round(rows / (BATCH * TOGETHER))):
            for (left, right), out in zip(pairs, room, strict=True):
                np.matmul(left, right, out=out)
        laps.mark()
    report(laps.median(skip=2))


if __name__ == "__main__":
    main(*sys.argv[1:])
