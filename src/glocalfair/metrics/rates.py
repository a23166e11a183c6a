"""Rates of a 2 × 2 table ``[..., y, prediction]``; every leading axis (draw, client, group) is kept.

Of a table ``[..., groups, 2, 2]`` they are the rates by group; of ``pooled(table)`` the rates of all rows.
A rate whose denominator is 0 is NaN.
"""

from __future__ import annotations

import numpy as np

from glocalfair.metrics.counts import Counts
from glocalfair.metrics.defined import Array, ratio


def pooled(table: Counts) -> Counts:
    """Sum the groups away: ``[..., groups, 2, 2]`` → ``[..., 2, 2]``.

    >>> pooled(np.ones((3, 2, 2), int)).tolist()
    [[3, 3], [3, 3]]
    """
    return np.asarray(np.sum(table, axis=-3))


def tpr(cells: Counts) -> Array:
    """True positive rate, ``P(ŷ=1 | y=1)``.

    >>> table = np.array([[[8, 2], [1, 3]], [[5, 0], [0, 0]]])
    >>> tpr(table).tolist()
    [0.75, nan]
    """
    return ratio(cells[..., 1, 1], cells[..., 1, 0] + cells[..., 1, 1])


def fnr(cells: Counts) -> Array:
    """False negative rate, ``P(ŷ=0 | y=1)``.

    >>> float(fnr(np.array([[8, 2], [1, 3]])))
    0.25
    """
    return ratio(cells[..., 1, 0], cells[..., 1, 0] + cells[..., 1, 1])


def fpr(cells: Counts) -> Array:
    """False positive rate, ``P(ŷ=1 | y=0)``.

    >>> float(fpr(np.array([[8, 2], [1, 3]])))
    0.2
    """
    return ratio(cells[..., 0, 1], cells[..., 0, 0] + cells[..., 0, 1])


def tnr(cells: Counts) -> Array:
    """True negative rate, ``P(ŷ=0 | y=0)``.

    >>> float(tnr(np.array([[8, 2], [1, 3]])))
    0.8
    """
    return ratio(cells[..., 0, 0], cells[..., 0, 0] + cells[..., 0, 1])


def positive_rate(cells: Counts) -> Array:
    """Share of positive predictions, ``R = P(ŷ=1)``. At 0 or 1 the classifier has collapsed.

    >>> float(positive_rate(np.array([[8, 2], [2, 4]])))
    0.375
    """
    return ratio(cells[..., 1].sum(axis=-1), cells.sum(axis=(-2, -1)))


def accuracy(cells: Counts) -> Array:
    """Share of right predictions, ``P(ŷ=y)``.

    >>> float(accuracy(np.array([[8, 2], [2, 4]])))
    0.75
    """
    return ratio(cells[..., 0, 0] + cells[..., 1, 1], cells.sum(axis=(-2, -1)))


def balanced_accuracy(cells: Counts) -> Array:
    """Mean of the two classes' accuracies, ``(TPR + TNR) / 2``; NaN if a class is missing.

    >>> float(balanced_accuracy(np.array([[8, 2], [1, 3]]))).__round__(3)
    0.775
    """
    return np.asarray((tpr(cells) + tnr(cells)) / 2)


def precision(cells: Counts) -> Array:
    """Share of positive predictions that are right, ``P(y=1 | ŷ=1)``.

    >>> float(precision(np.array([[8, 2], [1, 3]])))
    0.6
    """
    return ratio(cells[..., 1, 1], cells[..., 0, 1] + cells[..., 1, 1])


def recall(cells: Counts) -> Array:
    """Share of positives that are found: the TPR under its other name.

    >>> float(recall(np.array([[8, 2], [1, 3]])))
    0.75
    """
    return tpr(cells)
