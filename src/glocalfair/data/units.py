"""Units: what a split and a partition move as a whole. A row by itself, or all pictures of one person."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glocalfair.data.cells import Cells, attribute_cells
from glocalfair.errors import GlocalfairError
from glocalfair.types import Dataset, Ints


@dataclass(frozen=True, eq=False)
class Units:
    """Units with the label, the attribute cell and the owner that most of their rows have."""

    label: Ints
    cells: Cells
    owner: Ints | None
    size: Ints
    """How many rows each has."""
    of_row: Ints
    """The unit of each row."""


def units_of(dataset: Dataset) -> Units:
    """Return the units of a dataset; without `Dataset.unit` every row is one.

    >>> from glocalfair.data.registry import load
    >>> units = units_of(load("faces", rows=50, people=8))
    >>> len(units.label), int(units.size.sum())
    (8, 50)
    """
    cells = attribute_cells(dataset.groups, dataset.attributes)
    rows = len(dataset)
    if dataset.unit is None:
        return Units(dataset.label, cells, dataset.owner, np.ones(rows, dtype=np.int64), np.arange(rows))
    _, of_row = np.unique(dataset.unit, return_inverse=True)
    size = np.bincount(of_row)
    owner = None
    if dataset.owner is not None:
        owner = _most_frequent(of_row, dataset.owner, len(size))
        if (owner[of_row] != dataset.owner).any():
            raise GlocalfairError(f"Data '{dataset.name}': all rows of a unit (a person) must have the same client.")
    return Units(
        label=_most_frequent(of_row, dataset.label, len(size)),
        cells=Cells(_most_frequent(of_row, cells.codes, len(size)), cells.names),
        owner=owner,
        size=size,
        of_row=of_row,
    )


def _most_frequent(of_row: Ints, codes: Ints, units: int) -> Ints:
    """Return for each unit the code that most of its rows have; the smallest of equally frequent ones."""
    width = int(codes.max()) + 1
    pairs, counts = np.unique(of_row * width + codes, return_counts=True)
    # Ascending counts, and of equal counts the larger code first: what is written last wins.
    order = np.lexsort((-pairs, counts))
    chosen = np.empty(units, dtype=np.int64)
    chosen[pairs[order] // width] = pairs[order] % width
    return chosen
