"""The Gini coefficient of a model's weights and its Lorenz curve: by sorting, or by buckets for a large model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glocalfair.aggregation import buckets
from glocalfair.cores import side_by_side
from glocalfair.memory import keep_freed
from glocalfair.types import Floats

_CHUNK = 1 << 20
_MANY = 1 << 20


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
    return _sorting([weights], points, origin)[0]


def inequalities(
    models: Sequence[Floats], points: int = 11, origin: Floats | None = None
) -> list[tuple[float, Floats]]:
    """Return `inequality` of several models: large ones side by side, on up to four cores.

    >>> [round(value, 4) for value, _ in inequalities([np.array([-2.0, 1.0, 1.0]), np.ones(3)])]
    [0.1667, 0.0]
    """
    if not models:
        return []
    if len(models[0]) < _MANY and len({model.dtype for model in models}) == 1:
        together = max(1, _CHUNK // max(1, len(models[0])))
        parts = [models[i : i + together] for i in range(0, len(models), together)]
        return [found for part in parts for found in _sorting(part, points, origin)]

    def one(model: Floats) -> tuple[float, Floats]:
        return inequality(model, points, origin)

    keep_freed()  # the next model needs as much memory as this one
    return side_by_side(one, models)


def _sorting(models: Sequence[Floats], points: int, origin: Floats | None) -> list[tuple[float, Floats]]:
    # One alone may be large: no copy.
    stacked = np.stack(models) if len(models) > 1 else models[0][None]
    ordered = sorted_magnitudes(stacked if origin is None else stacked - origin)
    if ordered.size <= _CHUNK:
        ordered = ordered.astype(np.float64)  # once for both
    return list(zip(_ginis(ordered).tolist(), lorenz(ordered, points), strict=True))


def sorted_magnitudes(weights: Floats) -> Floats:
    """Return |weights| in ascending order, of one model or of several with a leading axis."""
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
    return float(_ginis(ordered[None])[0])


def _ginis(ordered: Floats) -> Floats:
    """Return `gini` of several vectors ``[models, size]``."""
    models, size = ordered.shape
    total, ranked = np.zeros(models), np.zeros(models)
    # Chunks keep the float64 copies small, whatever the size of the model.
    for start in range(0, size, _CHUNK):
        part = ordered[:, start : start + _CHUNK].astype(np.float64, copy=False)
        rank = np.arange(2 * start + 1 - size, 2 * (start + part.shape[1]) - size, 2, dtype=np.float64)
        total += part.sum(1)
        # One product for each: the product with a matrix would be rounded by the number of its rows.
        ranked += np.vecdot(part, rank)
    values: Floats = np.divide(ranked, size * total, out=np.zeros(models), where=total > 0)
    return values


def lorenz(ordered: Floats, points: int = 21) -> Floats:
    """Return the share of the total that the smallest 0 %, 5 %, …, 100 % of the values hold, on the last axis."""
    at = np.linspace(0, ordered.shape[-1], points)
    cuts = np.floor(at).astype(int)
    # A cumulative sum of all values would cost more than the sort.
    parts = np.add.reduceat(ordered, cuts[:-1], axis=-1, dtype=np.float64)
    curve = np.zeros((*ordered.shape[:-1], points))
    # Of a part without values `reduceat` returns the next one.
    np.cumsum(np.where(np.diff(cuts) > 0, parts, 0.0), axis=-1, out=curve[..., 1:])
    curve[..., :-1] += (at - cuts)[:-1] * ordered[..., cuts[:-1]]
    total = curve[..., -1:]
    even = np.broadcast_to(np.linspace(0, 1, points), curve.shape)
    return np.divide(curve, total, out=even.copy(), where=total > 0)
