"""Which rows a client sees in which step: shuffled epochs, laid out for a cohort at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from glocalfair.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class Schedule:
    """Steps of a cohort, clients sorted by falling number of steps.

    `position` ``[clients, steps, batch]`` numbers the rows within each client's own training part; `weight` is
    1/(rows in the batch) on real rows and 0 on padding, so a weighted sum over a batch is its mean.
    """

    position: Ints
    weight: Floats
    steps: Ints

    def active(self) -> list[int]:
        """How many clients still train at each step; they are the first ones."""
        return [int(n) for n in (self.steps[:, None] > np.arange(self.position.shape[1])).sum(0)]


def steps(rows: int, epochs: int, batch: int) -> int:
    """Number of local steps: the last batch of an epoch may be smaller."""
    return epochs * -(-rows // batch)


def schedule(rows: Sequence[int], epochs: int, batch: int, generators: Sequence[np.random.Generator]) -> Schedule:
    """Shuffle each client's rows once for each epoch and cut them into batches."""
    counts = np.array([steps(n, epochs, batch) for n in rows])
    width = min(batch, max(rows))
    position = np.zeros((len(rows), counts.max(), width), dtype=np.int64)
    flat = position.reshape(len(rows), -1)
    for k, (n, generator) in enumerate(zip(rows, generators, strict=True)):
        # All batches but the last are full, so the rows of an epoch lie side by side.
        for start in range(0, int(counts[k]) * width, -(-n // batch) * width):
            flat[k, start : start + n] = generator.permutation(n)
    held, step = np.array(rows)[:, None], np.arange(counts.max())
    filled = np.minimum(held - step % np.maximum(-(-held // batch), 1) * batch, width) * (step < counts[:, None])
    weight = (np.arange(width) < filled[:, :, None]) / np.maximum(filled, 1)[:, :, None]
    return Schedule(position, weight, counts)


def padded(values: Sequence[npt.NDArray[Any]], dtype: torch.dtype) -> torch.Tensor:
    """Stack vectors of different lengths into a matrix, zeros behind the shorter ones."""
    lengths = np.array([len(v) for v in values])
    joined = np.concatenate(values)
    result = np.zeros((len(values), lengths.max()), dtype=joined.dtype)
    result[np.arange(lengths.max()) < lengths[:, None]] = joined
    return torch.as_tensor(result, dtype=dtype)
