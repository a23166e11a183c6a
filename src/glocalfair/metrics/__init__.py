"""Accuracy and group fairness from integer counts: global, in each client, and how much of it is chance.

Needs numpy alone. `tables` counts, `summarise` computes everything; the functions work on any table
``[..., groups, 2 (y), 2 (prediction)]``.
"""

from glocalfair.metrics.catalogue import FAIRNESS, METRICS, PERFORMANCE, Metric, Pair, metric, worst_pair
from glocalfair.metrics.counts import count, intersection, joint, marginal
from glocalfair.metrics.evaluation import evaluate, summarise
from glocalfair.metrics.fairness import dis, dp_dis, dpd, eod, eod_literal, equal_opportunity, fned, fped
from glocalfair.metrics.rates import (
    accuracy,
    balanced_accuracy,
    fnr,
    fpr,
    pooled,
    positive_rate,
    precision,
    recall,
    tnr,
    tpr,
)
from glocalfair.metrics.tables import Tables, tables
from glocalfair.metrics.uncertainty import bootstrap, excess, fair_draws, interval, noise_floor, resample

__all__ = [
    "FAIRNESS",
    "METRICS",
    "PERFORMANCE",
    "Metric",
    "Pair",
    "Tables",
    "accuracy",
    "balanced_accuracy",
    "bootstrap",
    "count",
    "dis",
    "dp_dis",
    "dpd",
    "eod",
    "eod_literal",
    "equal_opportunity",
    "evaluate",
    "excess",
    "fair_draws",
    "fned",
    "fnr",
    "fped",
    "fpr",
    "intersection",
    "interval",
    "joint",
    "marginal",
    "metric",
    "noise_floor",
    "pooled",
    "positive_rate",
    "precision",
    "recall",
    "resample",
    "summarise",
    "tables",
    "tnr",
    "tpr",
    "worst_pair",
]
