"""Spearman's rank correlation and its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glocalfair.types import Floats

_NORMAL = 1.959963984540054


@dataclass(frozen=True)
class Correlation:
    """Rank correlation of `n` pairs with a 95 % interval; NaN where undefined."""

    rho: float
    low: float
    high: float
    n: int


def ranks(values: Floats) -> Floats:
    """Return ranks from 1; ties share their mean rank.

    >>> ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], dtype=float)


def spearman(x: Sequence[float], y: Sequence[float]) -> Correlation:
    """Correlate the ranks; the interval is Fisher's z with Bonett and Wright's standard error (2000).

    z = artanh ρ ± 1.96 · √((1 + ρ²/2) / (n − 3)). It takes the pairs for independent.

    >>> spearman([1, 2, 3, 4, 5], [1, 2, 3, 5, 4]).rho.__round__(3)
    0.9
    """
    a, b = ranks(np.asarray(x, dtype=float)), ranks(np.asarray(y, dtype=float))
    n = len(a)
    a, b = a - a.mean() if n else a, b - b.mean() if n else b
    scale = math.sqrt(float(a @ a) * float(b @ b))
    if n < 2 or scale == 0:
        return Correlation(math.nan, math.nan, math.nan, n)
    rho = min(1.0, max(-1.0, float(a @ b) / scale))
    if n < 4 or abs(rho) == 1:
        return Correlation(rho, math.nan, math.nan, n)
    half = _NORMAL * math.sqrt((1 + rho**2 / 2) / (n - 3))
    return Correlation(rho, math.tanh(math.atanh(rho) - half), math.tanh(math.atanh(rho) + half), n)
