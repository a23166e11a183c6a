"""Weighted averages of flat weight vectors, with coefficients that are checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glocalfair.types import Floats


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
    result = np.zeros(rest.shape, dtype=np.float64)
    for vector, coefficient in zip(vectors, coefficients, strict=True):
        result += coefficient * np.asarray(vector, dtype=np.float64)
    if 1 - total > 1e-12:
        result += (1 - total) * np.asarray(rest, dtype=np.float64)
    return result.astype(rest.dtype)
