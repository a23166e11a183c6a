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

    def active(self, step: int) -> int:
        """How many clients still train at this step; they are the first ones."""
        return int((self.steps > step).sum())


def steps(rows: int, epochs: int, batch: int) -> int:
    """Number of local steps: the last batch of an epoch may be smaller."""
    return epochs * -(-rows // batch)


def schedule(rows: Sequence[int], epochs: int, batch: int, generators: Sequence[np.random.Generator]) -> Schedule:
    """Shuffle each client's rows once for each epoch and cut them into batches."""
    counts = np.array([steps(n, epochs, batch) for n in rows])
    width = min(batch, max(rows))
    position = np.zeros((len(rows), counts.max(), width), dtype=np.int64)
    weight = np.zeros(position.shape)
    for k, (n, generator) in enumerate(zip(rows, generators, strict=True)):
        per_epoch = -(-n // batch)
        full = batch * (per_epoch - 1)
        # All batches but the last are full, so the rows of an epoch lie side by side.
        shape = epochs, per_epoch * width
        rows_of_epoch = position[k, : epochs * per_epoch].reshape(shape)
        weight_of_epoch = weight[k, : epochs * per_epoch].reshape(shape)
        weight_of_epoch[:, :full] = 1 / batch
        weight_of_epoch[:, full:n] = 1 / (n - full)
        for epoch in range(epochs):
            rows_of_epoch[epoch, :n] = generator.permutation(n)
    return Schedule(position, weight, counts)


def padded(values: Sequence[npt.NDArray[Any]], dtype: torch.dtype) -> torch.Tensor:
    """Stack vectors of different lengths into a matrix, zeros behind the shorter ones."""
    result = torch.zeros(len(values), max(len(v) for v in values), dtype=dtype)
    for row, value in zip(result, values, strict=True):
        row[: len(value)] = torch.as_tensor(value)
    return result
