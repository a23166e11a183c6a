"""Fairness of a table ``[..., groups, 2, 2]``: one metric, one function, every leading axis kept.

A group without rows, or without positives where a rate needs them, takes no part. A gap needs two groups with
a defined rate; otherwise the metric is NaN, never 0.
"""

from __future__ import annotations

import numpy as np

from glocalfair.metrics.counts import Counts
from glocalfair.metrics.defined import Array, gap, number
from glocalfair.metrics.rates import accuracy, fnr, fpr, pooled, positive_rate, tpr


def eod(table: Counts) -> Array:
    """Equalized odds difference (eq. 3 of the paper), ``max(gap TPR, gap FPR)``.

    Each gap is max − min over the groups with a defined rate. Without both gaps there is no EOD: NaN.

    Examples
    --------
    >>> table = np.array([[[8, 2], [1, 3]], [[9, 1], [2, 2]]])
    >>> float(eod(table))  # TPR .75 and .5, FPR .2 and .1
    0.25
    """
    return np.maximum(gap(tpr(table)), gap(fpr(table)))


def equal_opportunity(table: Counts) -> Array:
    """Equal opportunity difference: for two groups the signed ``TPR_0 − TPR_1``, for more the gap max − min.

    With more than two groups a sign has no meaning; the value is then never negative.

    Examples
    --------
    >>> table = np.array([[[8, 2], [1, 3]], [[9, 1], [0, 4]]])
    >>> float(equal_opportunity(table))
    -0.25
    """
    rates = tpr(table)
    return np.asarray(rates[..., 0] - rates[..., 1]) if rates.shape[-1] == 2 else gap(rates)


def dpd(table: Counts) -> Array:
    """Demographic parity difference, ``max_a R_a − min_a R_a`` with ``R_a = P(ŷ=1 | a)``.

    Examples
    --------
    >>> table = np.array([[[1, 1], [1, 1]], [[2, 0], [1, 1]]])
    >>> float(dpd(table))
    0.25
    """
    return gap(positive_rate(table))


def eod_literal(table: Counts) -> Array:
    """The "EOD" as the paper's formula prints it, ``|P(ŷ=1 | 0) − P(ŷ=1 | 1)|``.

    The formula has no y in it: it is the demographic parity difference. Reported under its own name so that
    figures computed to the letter can be compared; for fairness of errors read `eod`.

    Examples
    --------
    >>> table = np.array([[[1, 1], [1, 1]], [[2, 0], [1, 1]]])
    >>> float(eod_literal(table))
    0.25
    """
    return dpd(table)


def dp_dis(table: Counts) -> Array:
    """Demographic parity disparity, ``max_a |R_a − R|``, R the positive rate of all rows.

    With one group it would always be 0, so it takes two groups with rows; else NaN.

    Examples
    --------
    >>> table = np.array([[[0, 2], [0, 2]], [[3, 1], [4, 0]]])
    >>> float(dp_dis(table)).__round__(4)  # R_0 = 1, R_1 = 1/8, R = 5/12
    0.5833
    """
    rates = positive_rate(table)
    distance = np.abs(rates - positive_rate(pooled(table))[..., None])
    largest = np.max(distance, axis=-1, where=~np.isnan(rates), initial=0.0)
    return np.where(number(rates, -1) >= 2, largest, np.nan)


def fned(table: Counts) -> Array:
    """False negative equality difference, ``Σ_g |FNR − FNR_g|`` over the groups with positives (at least 2).

    Examples
    --------
    >>> table = np.array([[[1, 0], [1, 3]], [[1, 0], [3, 1]]])
    >>> float(fned(table))  # FNR .25, .75, overall .5
    0.5
    """
    return _deviation(fnr(table), fnr(pooled(table)))


def fped(table: Counts) -> Array:
    """False positive equality difference, ``Σ_g |FPR − FPR_g|`` over the groups with negatives (at least 2).

    Examples
    --------
    >>> table = np.array([[[3, 1], [0, 1]], [[1, 3], [0, 1]]])
    >>> float(fped(table))
    0.5
    """
    return _deviation(fpr(table), fpr(pooled(table)))


def _deviation(rates: Array, overall: Array) -> Array:
    total = np.sum(np.abs(rates - overall[..., None]), axis=-1, where=~np.isnan(rates))
    return np.where(number(rates, -1) >= 2, total, np.nan)


def dis(table: Counts) -> Array:
    """Accuracy disparity of a table ``[..., clients, groups, 2, 2]``, ``max_k acc_k − min_k acc_k``.

    Over the clients that have rows; NaN with fewer than two of them.

    Examples
    --------
    >>> clients = np.array([[[[1, 0], [0, 1]]], [[[1, 1], [1, 1]]], [[[0, 0], [0, 0]]]])
    >>> float(dis(clients))
    0.5
    """
    return gap(accuracy(pooled(table)))
