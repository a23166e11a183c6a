"""Student's t interval of paired differences; no scipy."""

from __future__ import annotations

import math

import numpy as np

from glocalfair.metrics.defined import Array


def within(angle: float, freedom: int) -> float:
    """Return P(|T| < √ν · tan(angle)) for ν degrees of freedom: a finite sum for whole ν.

    >>> round(within(math.atan(1.0), 1), 12)  # Cauchy: half the mass lies in (−1, 1)
    0.5
    """
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2 == 1
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for step in range(3 if odd else 2, freedom - 1, 2):
        term *= cosine**2 * (step - 1) / step
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def t_quantile(freedom: int, level: float = 0.95) -> float:
    """Return t with P(|T| < t) = level.

    >>> round(t_quantile(4), 3), round(t_quantile(9), 3)
    (2.776, 2.262)
    """
    if freedom < 1:
        return math.nan
    low, high = 0.0, math.pi / 2
    # The probability rises with the angle; 60 halvings leave nothing of a double.
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, freedom) < level else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def paired(values: Array, against: Array, level: float = 0.95) -> tuple[float, float, int]:
    """Return mean, half width of the t interval and number of the differences where both sides are defined.

    >>> mean, half, pairs = paired(np.array([0.3, 0.5, np.nan]), np.array([0.1, 0.2, 0.3]))
    >>> round(mean, 3), round(half, 3), pairs
    (0.25, 0.635, 2)
    """
    difference = values - against
    difference = difference[~np.isnan(difference)]
    pairs = len(difference)
    if not pairs:
        return math.nan, math.nan, 0
    half = t_quantile(pairs - 1, level) * difference.std(ddof=1) / math.sqrt(pairs) if pairs > 1 else math.nan
    return float(difference.mean()), float(half), pairs
