"""Which rows a client sees in which step: shuffled epochs, laid out for a cohort at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from glocalfair.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class Schedule:
    """The batches of a cohort: first those of everybody's first step, client by client, then those of the second …

    Clients are sorted by falling number of steps, so those who still train are always the first ones.

    Attributes
    ----------
    position
        Numbers of the rows in each batch ``[batches, width]``; all clients' rows are numbered one after the other's.
    weight
        1/(rows in the batch) on real rows and 0 on padding, so a weighted sum over a batch is its mean.
    filled
        How many real rows each batch has; they are its first ones.
    client
        Whose batch it is.
    steps
        How many each client takes.
    """

    position: Ints
    weight: Floats
    filled: Ints
    client: Ints
    steps: Ints

    @cached_property
    def active(self) -> list[int]:
        """How many batches each step has."""
        found: list[int] = (self.steps > np.arange(self.steps.max())[:, None]).sum(1).tolist()
        return found

    @cached_property
    def fullest(self) -> list[int]:
        """How many rows the fullest batch of each step has."""
        starts = np.cumsum([0, *self.active[:-1]])
        found: list[int] = np.maximum.reduceat(self.filled, starts).tolist()
        return found


def steps(rows: int, epochs: int, batch: int) -> int:
    """Number of local steps: the last batch of an epoch may be smaller."""
    return epochs * -(-rows // batch)


def schedule(rows: Sequence[int], epochs: int, batch: int, generators: Iterable[np.random.Generator]) -> Schedule:
    """Shuffle each client's rows once for each epoch and cut them into batches.

    Whose rows are one batch needs no shuffling: there is a generator for each of the others.
    """
    held = np.array(rows)
    per_epoch = -(-held // batch)
    counts = epochs * per_epoch
    step, client = np.nonzero(counts > np.arange(counts.max())[:, None])
    width = min(batch, max(rows))
    filled = np.minimum(held[client] - step % per_epoch[client] * batch, width)
    column = np.arange(width)
    real = column < filled[:, None]
    # Padding repeats a row of the client's own: what is not finite must not reach the others.
    position = column * real
    # Client by client at first: an epoch's rows lie in a row there, and only its last batch is not full.
    several = held > batch
    taken = np.where(several, counts, 0)
    dealt, at = np.zeros((taken.sum(), width), dtype=np.int64), 0
    flat, ready, whole = dealt.ravel(), iter(generators), np.arange(held.max())
    for n, batches in zip(held[several].tolist(), per_epoch[several].tolist(), strict=True):
        random = next(ready)
        for _ in range(epochs):
            epoch = flat[at : at + n]
            epoch[:] = whole[:n]
            random.shuffle(epoch)
            at += batches * width
    theirs = several[client]
    position[theirs] = dealt[((np.cumsum(taken) - taken)[client] + step)[theirs]]
    position += (np.cumsum(held) - held)[client][:, None]
    return Schedule(position, real / filled[:, None], filled, client, counts)
