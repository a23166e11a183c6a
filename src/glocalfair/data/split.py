"""Splits: the global test set, then train, validation and local test inside each client, all stratified.

The strata are label × attribute cell. Rows are lined up by stratum, shuffled inside it, and every n-th is
taken (systematic sampling from a random start): so the total is exact, each stratum gets its share to within
a row or two however small it is, every row has the same chance, and no loop over clients is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from glocalfair.data.cells import Cells
from glocalfair.errors import invalid
from glocalfair.rng import generator
from glocalfair.types import Ints

TRAIN, VALIDATION, TEST = 0, 1, 2


@dataclass(frozen=True)
class SplitSpec:
    """Shares of the parts.

    Attributes
    ----------
    test
        Share of all rows in the global test set, which no client holds. Not used with `folds`.
    validation, local_test
        Shares of a client's rows; the rest is its training part.
    folds, fold
        With ``folds=F`` the rows fall into F stratified folds, the same for every `fold`, and the global test
        set is fold number `fold`, counted from 0: F runs test each row once.
    seed
        Seed of the global test set (or the folds); None for the run's own. With a fixed one the folds stay the same
        while clients, initial weights and training are drawn anew by the run's seed.
    """

    test: float = 0.1
    validation: float = 0.1
    local_test: float = 0.2
    folds: int = 0
    fold: int = 0
    seed: int | None = None

    def __post_init__(self) -> None:
        for name in ("test", "validation", "local_test"):
            if not 0 <= getattr(self, name) < 1:
                raise invalid(name, "a share of at least 0 and less than 1", getattr(self, name))
        if self.validation + self.local_test >= 1:
            value = self.validation + self.local_test
            raise invalid("validation + local_test", "less than 1, or nothing is left to train on", value)
        if self.folds < 0 or self.folds == 1:
            raise invalid("folds", "0 (none) or at least 2", self.folds)
        if not 0 <= self.fold < max(self.folds, 1):
            raise invalid("fold", f"a whole number from 0 to {max(self.folds, 1) - 1}", self.fold)


def _line_up(strata: Ints, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return the row numbers sorted by stratum, in random order inside each."""
    shuffled = rng.permutation(len(strata))
    return shuffled[np.argsort(strata[shuffled], kind="stable")]


def _every_nth(sizes: Ints, counts: Ints, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Mark `counts` evenly spaced places in each of several lines of `sizes`, from a random start."""
    start = rng.integers(0, np.maximum(sizes, 1))
    place = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    size, count, offset = (np.repeat(array, sizes) for array in (sizes, counts, start))
    # Whole numbers throughout: a rounding error in floats would lose or add a row now and then.
    marked: npt.NDArray[np.bool_] = ((place + 1) * count + offset) // size > (place * count + offset) // size
    return marked


def global_test(label: Ints, cells: Cells, spec: SplitSpec, seed: int) -> npt.NDArray[np.bool_]:
    """Mark the rows of the global test set.

    >>> label = np.array([0, 1] * 50)
    >>> mask = global_test(label, Cells(np.zeros(100, dtype=int), ("all",)), SplitSpec(test=0.1), seed=0)
    >>> int(mask.sum()), int(label[mask].sum())
    (10, 5)
    """
    rng = generator(seed if spec.seed is None else spec.seed, "test")
    order = _line_up(2 * cells.codes + label, rng)
    chosen = np.zeros(len(label), dtype=np.bool_)
    if spec.folds:
        # Dealing in turn along the line: in each stratum, and in all, two folds differ by at most one row.
        chosen[order[spec.fold :: spec.folds]] = True
    else:
        size = np.array([len(label)])
        chosen[order] = _every_nth(size, np.rint(size * spec.test).astype(np.int64), rng)
    return chosen


def _totals(sizes: Ints, spec: SplitSpec) -> npt.NDArray[np.int64]:
    """Return train, validation and test rows for each client size, by largest remainder.

    >>> _totals(np.array([1, 2, 5, 100]), SplitSpec()).tolist()
    [[1, 0, 0], [2, 0, 0], [4, 0, 1], [70, 10, 20]]
    """
    shares = np.array([1 - spec.validation - spec.local_test, spec.validation, spec.local_test])
    ideal = sizes[:, None] * shares
    totals: npt.NDArray[np.int64] = np.floor(ideal + 1e-9).astype(np.int64)
    # Rounded, so that equal remainders are equal and the training part, which comes first, wins them.
    order = np.argsort(-np.round(ideal - totals, 9), axis=1, kind="stable")
    rank = np.argsort(order, axis=1)
    totals += rank < (sizes - totals.sum(axis=1))[:, None]
    empty = np.flatnonzero((totals[:, 0] == 0) & (sizes > 0))
    richest = np.argmax((totals - ideal)[empty], axis=1)
    totals[empty, richest] -= 1
    totals[empty, 0] += 1
    return totals


def client_parts(client: Ints, label: Ints, cells: Cells, spec: SplitSpec, seed: int) -> npt.NDArray[np.int8]:
    """Return the part (`TRAIN`, `VALIDATION` or `TEST`) of each row of each client.

    A client's totals are less than a row from its shares; whoever has a row has a training row.
    """
    rng = generator(seed, "split")
    sizes = np.bincount(client, minlength=1)
    _, validation, test = _totals(sizes, spec).T
    order = _line_up((client.astype(np.int64) * len(cells.names) + cells.codes) * 2 + label, rng)
    parts = np.full(len(client), TRAIN, dtype=np.int8)
    held_out = _every_nth(sizes, test, rng)
    parts[order[held_out]] = TEST
    rest = order[~held_out]
    parts[rest[_every_nth(sizes - test, validation, rng)]] = VALIDATION
    return parts
