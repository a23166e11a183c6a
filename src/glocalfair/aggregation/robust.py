"""Combining updates when some clients may be hostile: shortened steps, trimmed means and medians.

All of it works with the coefficients that a method gives its clients: a method says how much a client counts, and
`Combining` says what is done with counts. With the default nothing here changes a bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from glocalfair.aggregation.average import weighted_average
from glocalfair.types import ClientUpdate, Combining, Floats

_CHUNK = 1 << 16
_HALF = 2.0**-30
"""Half the width of the stretch that a median looks at; a power of two, so that adding it to ½ is exact."""


def squared(weights: Floats) -> float:
    """Return Σ w² in one pass: NaN or infinity if a weight is, or is too large for its precision.

    Numpy warns of that unless the caller says otherwise, which takes longer than the sum.

    >>> squared(np.array([3.0, 4.0]))
    25.0
    """
    return float(weights.dot(weights))


def step_norms(updates: Sequence[ClientUpdate], old: Floats) -> Floats:
    """Return ‖w_k − w‖ of each update; infinity where a square is too large for the weights' precision."""
    squares = np.zeros(len(updates))
    with np.errstate(over="ignore", invalid="ignore"):
        # In pieces: little memory, and sums of sums lose little in float32.
        for start in range(0, len(old), _CHUNK):
            part = slice(start, start + _CHUNK)
            before = old[part]
            squares += [squared(update.weights[part] - before) for update in updates]
    return np.sqrt(squares)


def clip(
    updates: Sequence[ClientUpdate], old: Floats, settings: Combining
) -> tuple[Sequence[ClientUpdate], dict[str, float]]:
    """Shorten the steps that are too long, and say by which factor.

    w_k ← w + (w_k − w) · min(1, limit/‖w_k − w‖), limit = `clip`, or `clip` · median_k ‖w_k − w‖.
    """
    if settings.clip == 0:
        return updates, {}
    norms = step_norms(updates, old)
    limit = settings.clip * (float(np.median(norms)) if settings.clip_by == "median" else 1.0)
    kept, factors = [], {}
    for update, norm in zip(updates, norms, strict=True):
        if norm > limit:
            factors[update.client] = float(limit / norm)
            step = np.asarray(update.weights, dtype=np.float64) - old
            update = replace(update, weights=(old + factors[update.client] * step).astype(old.dtype))
        kept.append(update)
    return kept, factors


def combine(vectors: Sequence[Floats], coefficients: Floats, rest: Floats, settings: Combining) -> Floats:
    """Return C·m + (1 − C)·rest, with C = Σ c_k and m the mean, trimmed mean or median of the vectors.

    >>> rows = [np.array([1.0]), np.array([2.0]), np.array([90.0])]
    >>> combine(rows, np.full(3, 1 / 3), np.zeros(1), Combining("median"))
    array([2.])
    """
    if settings.combine == "mean":
        return weighted_average(vectors, coefficients, rest)
    total = float(coefficients.sum())
    if total <= 0:
        return rest.copy()
    cut = 0.5 if settings.combine == "median" else settings.trim
    middle = np.empty(rest.shape)
    # In pieces, because sorting needs a few copies of whatever it sorts.
    for start in range(0, len(rest), _CHUNK):
        part = slice(start, start + _CHUNK)
        stacked = np.stack([np.asarray(vector[part], dtype=np.float64) for vector in vectors])
        middle[part] = trimmed_mean(stacked, coefficients / total, cut)
    if abs(1 - total) > 1e-12:
        middle = total * middle + (1 - total) * np.asarray(rest, dtype=np.float64)
    return middle.astype(rest.dtype)


def trimmed_mean(values: Floats, weights: Floats, trim: float) -> Floats:
    """Return for each column the weighted mean without the mass `trim` at its lower and at its upper end.

    With the values of a column in ascending order, value i covers the stretch [W_{i−1}, W_i] of the cumulated weights,
    and counts by what of it lies in [trim, 1 − trim]. With equal weights and a whole number of trimmed values it is
    the usual trimmed mean; a trim of ½ is the median (between two values their mean).

    Parameters
    ----------
    values
        ``[clients, columns]``.
    weights
        One for each client; at least 0, summing to 1.
    trim
        From 0 to ½. As long as hostile clients hold less of the weights, each column stays within the values of the
        others.

    Examples
    --------
    >>> trimmed_mean(np.array([[0.0], [1.0], [2.0], [1000.0]]), np.full(4, 0.25), 0.25)
    array([1.5])
    """
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.take_along_axis(values, order, axis=0)
    upper = np.cumsum(weights[order], axis=0)
    upper[-1] = 1.0
    # Rounding must not decide between two values in the middle.
    upper[np.abs(upper - 0.5) < _HALF] = 0.5
    lower = np.concatenate([np.zeros((1, values.shape[1])), upper[:-1]])
    low, high = min(trim, 0.5 - _HALF), max(1 - trim, 0.5 + _HALF)
    kept = np.clip(np.minimum(upper, high) - np.maximum(lower, low), 0.0, None)
    # Divided first: the sum of values near the largest float would overflow.
    result: Floats = (kept / kept.sum(axis=0) * ordered).sum(axis=0)
    return result
