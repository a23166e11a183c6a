"""Attribute cells: one for each combination of the sensitive values that somebody has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glocalfair.types import Attribute, Ints

SEPARATOR = "·"


@dataclass(frozen=True, eq=False)
class Cells:
    """The cell of each row (`codes`) and the names of the cells that occur."""

    codes: Ints
    names: tuple[str, ...]


def attribute_cells(groups: Ints, attributes: tuple[Attribute, ...]) -> Cells:
    """Number the combinations of sensitive values that occur, in the order of the attributes' codes.

    >>> sex, race = Attribute("sex", ("Female", "Male")), Attribute("race", ("Non-White", "White"))
    >>> attribute_cells(np.array([[1, 1], [0, 1], [1, 1]]), (sex, race))
    Cells(codes=array([1, 0, 1]), names=('Female·White', 'Male·White'))
    """
    if not attributes:
        return Cells(np.zeros(len(groups), dtype=np.int64), ("all",))
    shape = tuple(len(attribute.values) for attribute in attributes)
    flat = np.ravel_multi_index(tuple(groups.astype(np.int64).T), shape)
    # Counting is linear, where np.unique would sort; but there may be more combinations than rows.
    if np.prod(shape, dtype=float) <= 1e6:
        occurring = np.flatnonzero(np.bincount(flat, minlength=1))
        codes = np.cumsum(np.isin(np.arange(int(np.prod(shape))), occurring))[flat] - 1
    else:
        occurring, codes = np.unique(flat, return_inverse=True)
    values = np.array(np.unravel_index(occurring, shape)).T
    names = tuple(
        SEPARATOR.join(attribute.values[code] for attribute, code in zip(attributes, row, strict=True))
        for row in values
    )
    return Cells(codes, names)
