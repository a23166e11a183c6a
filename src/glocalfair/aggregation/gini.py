"""The Gini coefficient of a model's weights and its Lorenz curve: by sorting, or by buckets for a large model."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from glocalfair.aggregation import buckets
from glocalfair.cores import cores
from glocalfair.types import Floats

_CHUNK = 1 << 20
_MANY = 1 << 20
_SIDE_BY_SIDE = 4
"""Each needs memory of its own: little for buckets, a copy of the model where only sorting helps."""


def inequality(weights: Floats, points: int = 11, origin: Floats | None = None) -> tuple[float, Floats]:
    """Return the Gini coefficient of |weights − origin| and `points` points of its Lorenz curve.

    Exact for small models; with many float32 weights to a relative error of `buckets.TOLERANCE`, in a fraction of the
    time and without a sorted copy.

    >>> value, curve = inequality(np.array([-2.0, 1.0, 1.0]), points=4)
    >>> round(value, 4), curve.tolist()
    (0.1667, [0.0, 0.25, 0.5, 1.0])
    """
    if len(weights) >= _MANY and weights.dtype == np.float32 and (origin is None or origin.dtype == np.float32):
        found = buckets.inequality(weights, points, origin)
        if found is not None:
            return found
    ordered = sorted_magnitudes(weights if origin is None else weights - origin)
    return gini(ordered), lorenz(ordered, points)


def inequalities(
    models: Sequence[Floats], points: int = 11, origin: Floats | None = None
) -> list[tuple[float, Floats]]:
    """Return `inequality` of several models: large ones side by side, on all cores (but no more than four).

    >>> [round(value, 4) for value, _ in inequalities([np.array([-2.0, 1.0, 1.0]), np.ones(3)])]
    [0.1667, 0.0]
    """

    def one(model: Floats) -> tuple[float, Floats]:
        return inequality(model, points, origin)

    if all(len(model) < _MANY for model in models):
        return [one(model) for model in models]
    with ThreadPoolExecutor(min(cores(), _SIDE_BY_SIDE)) as pool:
        return list(pool.map(one, models))


def sorted_magnitudes(weights: Floats) -> Floats:
    """Return |weights| in ascending order."""
    magnitudes = np.abs(weights)
    magnitudes.sort()
    return magnitudes


def gini(ordered: Floats) -> float:
    """Return the Gini coefficient of non-negative values given in ascending order.

    G = Σ_i (2i − w − 1) x_(i) / (w Σ_i x_(i)), which equals the paper's Σ_a Σ_b |x_a − x_b| / (2 w² x̄). The paper
    divides by the mean of *signed* weights, which is near 0 and changes its sign between clients; magnitudes are
    meant. 0 for equal values and for a vector of zeros, (w−1)/w when one entry holds everything.

    >>> gini(np.array([1.0, 1.0, 1.0])), gini(np.array([0.0, 0.0, 0.0, 5.0]))
    (0.0, 0.75)
    """
    size = len(ordered)
    # Chunks keep the float64 copies small, whatever the size of the model.
    total = ranked = 0.0
    for start in range(0, size, _CHUNK):
        part = ordered[start : start + _CHUNK].astype(np.float64)
        rank = np.arange(2 * start + 1 - size, 2 * (start + len(part)) - size, 2, dtype=np.float64)
        total += float(part.sum())
        ranked += float(rank @ part)
    return ranked / (size * total) if total > 0 else 0.0


def lorenz(ordered: Floats, points: int = 21) -> Floats:
    """Return the share of the total that the smallest 0 %, 5 %, …, 100 % of the values hold."""
    at = np.linspace(0, len(ordered), points)
    cuts = np.floor(at).astype(int)
    if len(ordered) < _CHUNK:
        below = np.concatenate([[0.0], np.cumsum(ordered, dtype=np.float64)])[cuts]
    else:
        # A cumulative sum of 20 million float64 values would cost more than the sort.
        below = np.cumsum([0.0, *(ordered[a:b].sum(dtype=np.float64) for a, b in pairwise(cuts))])
    curve = below + (at - cuts) * np.append(ordered[cuts[:-1]], 0).astype(np.float64)
    result: Floats = curve / curve[-1] if curve[-1] > 0 else np.linspace(0, 1, points)
    return result
