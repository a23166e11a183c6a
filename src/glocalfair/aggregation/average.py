"""Weighted averages of flat weight vectors, with coefficients that are checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glocalfair.cores import side_by_side
from glocalfair.types import Floats

_CHUNK = 1 << 16
_STRETCH = 1 << 20
"""So many weights go to one core at a time; a model of fewer needs no other."""


def normalise(mass: Floats) -> Floats:
    """Divide non-negative masses by their sum; equal shares if all are 0.

    >>> normalise(np.array([3.0, 1.0])).tolist()
    [0.75, 0.25]
    """
    assert (mass >= 0).all() and np.isfinite(mass).all(), mass
    total = mass.sum()
    return mass / total if total > 0 else np.full(len(mass), 1 / len(mass))


def weighted_average(vectors: Sequence[Floats], coefficients: Floats, rest: Floats) -> Floats:
    """Return Σ c_k v_k + (1 − Σ c_k) rest, summed in float64 in the given order.

    Coefficients must be ≥ 0 and sum to at most 1. When they sum to 1 the old model `rest` takes no part.
    """
    total = float(coefficients.sum())
    assert (coefficients >= 0).all(), coefficients
    assert total <= 1 + 1e-9, coefficients
    shares = [*zip(vectors, coefficients.tolist(), strict=True)]
    if 1 - total > 1e-12:
        shares.append((rest, 1 - total))
    result = np.empty(rest.shape, rest.dtype)

    def stretch(first: int) -> None:
        last = min(first + _STRETCH, len(rest))
        summed, scaled = np.empty(min(_CHUNK, last - first)), np.empty(min(_CHUNK, last - first))
        # Piece by piece, so that the float64 sums stay in the cache whatever the size of the model.
        for start in range(first, last, _CHUNK):
            end = min(start + _CHUNK, last)
            part, term = summed[: end - start], scaled[: end - start]
            part.fill(0)
            for vector, share in shares:
                np.multiply(vector[start:end], share, out=term, dtype=np.float64)
                part += term
            result[start:end] = part

    side_by_side(stretch, range(0, len(rest), _STRETCH))
    return result
