"""What group-aware methods share: the group of each row, sums by cell, weights and projections. Pure numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from glocalfair.errors import GlocalfairError, unknown
from glocalfair.methods.base import Method
from glocalfair.metrics.counts import intersection
from glocalfair.types import Attribute, ClientData, ClientInfo, Floats, Ints

INTERSECTION = "intersection"


@dataclass(frozen=True)
class OneAttribute(Method):
    """Base of methods that protect one attribute (or the intersection of all) in a run."""

    attributes: ClassVar[Literal["none", "single", "joint"]] = "single"

    attribute: str = ""
    """Name of the protected attribute; empty: the first; ``"intersection"``: all of them crossed."""

    def enrol(self, data: ClientData) -> ClientInfo:
        """Client, once: refuse a wrong attribute before any training."""
        group_codes(data, self.attribute)
        return super().enrol(data)

    def groups(self, attributes: Sequence[Attribute]) -> int:
        """See `Method.groups`."""
        nobody = ClientData("", np.empty(0, int), np.empty((0, len(attributes)), int), tuple(attributes))
        return group_codes(nobody, self.attribute)[1]


def group_codes(data: ClientData, attribute: str) -> tuple[Ints, int]:
    """Return the group of each row, 0 … A−1, and A; groups that the client lacks keep their code.

    >>> from glocalfair.types import Attribute
    >>> two = (Attribute("sex", ("F", "M")), Attribute("race", ("B", "W")))
    >>> data = ClientData("k", np.array([0, 1]), np.array([[0, 1], [1, 1]]), two)
    >>> group_codes(data, "race"), group_codes(data, "intersection")
    ((array([1, 1]), 2), (array([1, 3]), 4))
    """
    names = [each.name for each in data.attributes]
    if not names:
        raise GlocalfairError("This method protects a sensitive attribute, and the data have none.")
    if attribute == INTERSECTION and attribute not in names:
        codes, crossed = intersection(data.groups, data.attributes)
        return codes, len(crossed.values)
    if attribute and attribute not in names:
        raise unknown("attribute", attribute, [*names, INTERSECTION])
    column = names.index(attribute) if attribute else 0
    return data.groups[:, column].astype(np.int64), len(data.attributes[column].values)


def by_cell(y: Ints, codes: Ints, groups: int, values: Floats | None = None) -> Floats:
    """Sum `values` (or count rows) by label and group: float64 ``[2, groups]``.

    >>> by_cell(np.array([0, 1, 1]), np.array([1, 0, 0]), 2).tolist()
    [[0.0, 1.0], [2.0, 0.0]]
    """
    cell = y.astype(np.int64) * groups + codes
    return np.bincount(cell, weights=values, minlength=2 * groups).astype(np.float64).reshape(2, groups)


def reweighing(y: Ints, codes: Ints, groups: int) -> Floats:
    """Return the weight W(a, y) = P(a)·P(y) / P(a, y) of each row (Kamiran and Calders), on these rows alone.

    Under the weights label and group are independent. A client with one group or one class gets ones.

    >>> reweighing(np.array([1, 1, 0, 1]), np.array([0, 0, 0, 1]), 2).tolist()
    [1.125, 1.125, 0.75, 0.75]
    """
    counts = by_cell(y, codes, groups)
    expected = counts.sum(1, keepdims=True) * counts.sum(0, keepdims=True) / max(len(y), 1)
    table = np.divide(expected, counts, out=np.ones_like(counts), where=counts > 0)
    weights: Floats = table[y.astype(np.int64), codes]
    return weights


def project_simplex(point: Floats, mass: float = 1.0) -> Floats:
    """Return the nearest point of {x ≥ 0, Σx = mass}.

    >>> project_simplex(np.array([0.5, 1.5, -1.0])).tolist()
    [0.0, 1.0, 0.0]
    """
    # The projection does not see a common shift; the largest entry at 0 keeps all digits.
    shifted = point - point.max()
    falling = np.sort(shifted)[::-1]
    level = (np.cumsum(falling) - mass) / np.arange(1, len(point) + 1)
    last = int(np.flatnonzero(falling >= level)[-1])
    result: Floats = np.maximum(shifted - level[last], 0.0)
    return result


def ascend_simplex(weights: Floats, values: Floats, rate: float) -> Floats:
    """Move simplex weights towards the larger values: Π(weights + rate · values).

    An entry whose value is NaN takes no part: it keeps its weight, and the others share what is left.
    """
    known = ~np.isnan(values)
    result = weights.copy()
    if known.sum() > 1:
        result[known] = project_simplex(weights[known] + rate * values[known], float(weights[known].sum()))
    return result
