"""Averages over what is defined. numpy's nan-functions warn on an empty slice; here it is just NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def ratio(numerator: npt.NDArray[Any], denominator: npt.NDArray[Any]) -> Array:
    """Divide counts; where the denominator is 0 the rate is undefined, NaN.

    >>> ratio(np.array([1, 0]), np.array([4, 0])).tolist()
    [0.25, nan]
    """
    undefined = np.full_like(numerator, np.nan, dtype=np.float64)
    np.divide(numerator, denominator, out=undefined, where=np.asarray(denominator) != 0)
    return undefined


def number(values: Array, axis: int = 0) -> npt.NDArray[np.int64]:
    """Count the defined values along an axis.

    >>> int(number(np.array([1.0, np.nan, 3.0])))
    2
    """
    return np.asarray(np.sum(~np.isnan(values), axis=axis, dtype=np.int64))


def mean(values: Array, axis: int = 0) -> Array:
    """Average the defined values along an axis; NaN if there are none.

    >>> float(mean(np.array([1.0, np.nan, 3.0]))), float(mean(np.array([np.nan])))
    (2.0, nan)
    """
    return ratio(np.sum(values, axis=axis, where=~np.isnan(values)), number(values, axis))


def std(values: Array, axis: int = 0) -> Array:
    """Return the spread of the defined values, ``sqrt(mean((x − mean)²))``, of these and not of a population.

    >>> float(std(np.array([1.0, np.nan, 3.0])))
    1.0
    """
    centre = np.expand_dims(mean(values, axis), axis)
    return np.sqrt(mean((values - centre) ** 2, axis))


def gap(values: Array, axis: int = -1) -> Array:
    """Return max − min over the defined values; a gap needs two of them, else NaN.

    >>> gap(np.array([[0.5, np.nan, 0.25], [0.5, np.nan, np.nan]])).tolist()
    [0.25, nan]
    """
    # These leave out NaN.
    high = np.fmax.reduce(values, axis, initial=np.nan)
    low = np.fmin.reduce(values, axis, initial=np.nan)
    return np.where(number(values, axis) >= 2, high - low, np.nan)


def quantile(values: Array, q: float) -> Array:
    """Return the q-quantile of the defined values along the first axis, linear between neighbours.

    >>> float(quantile(np.array([4.0, np.nan, 2.0]), 0.25))
    2.5
    """
    ordered = np.sort(values, axis=0)  # NaN sorts to the end
    last = np.maximum(number(values) - 1, 0)
    position = q * last
    below = np.floor(position).astype(np.int64)
    above = np.minimum(below + 1, last)
    low = np.take_along_axis(ordered, below[None], axis=0)[0]
    high = np.take_along_axis(ordered, above[None], axis=0)[0]
    return np.asarray(low + (position - below) * (high - low))
