"""Exact k-means in one dimension, and the number of clusters by the elbow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from glocalfair.types import Floats, Ints

MOST = 8
"""The elbow looks at no more clusters than this."""

_ENDS = 256


def kmeans_1d(values: Floats, most: int) -> tuple[Floats, Callable[[int], Ints]]:
    """Return for p = 1 … `most` clusters the smallest sum of squared deviations, and what gives the labels for a p.

    In one dimension the clusters of an optimum are intervals of the sorted values, so dynamic programming over the
    place of the last cut is exact. Labels count from 0 in the order of the values.
    """
    order = np.argsort(values, kind="stable")
    # Centred, because the prefix sums would cancel for values that differ in the third decimal.
    x = values[order] - values.mean()
    first = np.concatenate([[0.0], np.cumsum(x)])
    second = np.concatenate([[0.0], np.cumsum(x * x)])
    n = len(x)

    best = np.full((most + 1, n + 1), np.inf)
    best[1, 1:] = np.maximum(second[1:] - first[1:] ** 2 / np.arange(1, n + 1), 0.0)
    cuts = np.zeros((most + 1, n + 1), dtype=int)
    # Many ends at once, but not all of them: n² numbers would be too many for thousands of clients.
    for low in range(2, n + 1, _ENDS):
        ends = np.arange(low, min(low + _ENDS, n + 1))[:, None]
        starts = np.arange(1, ends[-1, 0])
        to, past = slice(low, low + _ENDS), slice(1, ends[-1, 0])
        # Deviation of x[start:end], for each end and start.
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = second[to, None] - second[past] - (first[to, None] - first[past]) ** 2 / (ends - starts)
        last = np.where(starts < ends, np.maximum(spread, 0.0), np.inf)
        for p in range(2, most + 1):
            total = last + best[p - 1, past]
            cut = total.argmin(axis=1)
            cuts[p, to] = cut + 1
            best[p, to] = total[np.arange(len(cut)), cut]
    return best[1:, n], lambda p: _labels(order, list(cuts[2 : p + 1]))


def _labels(order: Ints, cuts: list[Ints]) -> Ints:
    edges = [len(order)]
    for cut in reversed(cuts):
        edges.append(int(cut[edges[-1]]))
    edges.append(0)
    labels = np.empty(len(order), dtype=int)
    for label, (start, end) in enumerate(zip(edges[:0:-1], edges[-2::-1], strict=True)):
        labels[order[start:end]] = label
    return labels


def elbow(errors: Floats) -> int:
    """Return the number of clusters where the error curve lies furthest below its chord; 1 if nowhere.

    >>> elbow(np.array([1.0, 0.1, 0.05, 0.0]))
    2
    """
    if errors[0] < 1e-12:
        return 1
    chord = np.linspace(errors[0], errors[-1], len(errors))
    below = chord - errors
    return int(below.argmax()) + 1 if below.max() > 0 else 1


def cluster(values: Floats, clusters: int | None = None) -> Ints:
    """Group values: by the elbow, or into a given number of clusters (fewer if there are fewer values).

    >>> cluster(np.array([0.40, 0.41, 0.70, 0.71])).tolist()
    [0, 0, 1, 1]
    """
    most = min(len(values), MOST if clusters is None else clusters)
    errors, labels = kmeans_1d(values, most)
    return labels(elbow(errors) if clusters is None else most)
