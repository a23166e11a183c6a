"""Training that diverges is said in the round in which it happens, and the last good model is kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from glocalfair.aggregation.robust import squared
from glocalfair.types import ClientUpdate, Floats

LOSS = 100.0
"""A mean loss above this is no learning: guessing has 0.69."""
WEIGHT = 1e4
"""A weight beyond this comes from steps that are far too long."""


def mean_loss(losses: Mapping[str, float], examples: Mapping[str, int]) -> float:
    """Return the mean training loss over examples; clients whose loss is not finite are left out, NaN if all are.

    >>> mean_loss({"a": 1.0, "b": 2.0, "c": float("nan")}, {"a": 3, "b": 1, "c": 9})
    1.25
    >>> mean_loss({"a": 1e308, "b": 1e308}, {"a": 3, "b": 1})
    inf
    """
    finite = [(loss, examples[name]) for name, loss in losses.items() if math.isfinite(loss)]
    # In a round, numpy would take several times as long for a few numbers.
    return sum(loss * rows for loss, rows in finite) / sum(rows for _, rows in finite) if finite else math.nan


def divergence(
    updates: Sequence[ClientUpdate],
    losses: Mapping[str, float],
    weights: Floats,
    validation: float | None,
    enough: int,
) -> str:
    """Say what shows that a round's training has diverged; empty if nothing does.

    Parameters
    ----------
    updates, losses
        What the clients trained, and their mean training losses.
    weights
        The trainable weights of the new global model.
    validation
        Its loss on validation data, if it was measured.
    enough
        How many clients must take part before a majority of them says anything about the others.
    """
    size, lost = len(weights), 0
    with np.errstate(over="ignore", invalid="ignore"):
        for seen, update in enumerate(updates, start=1):
            lost += _blew_up(update, losses, size)
            if 2 * (seen - lost) >= len(updates):
                break  # the others cannot be a majority any more
        small = _small(weights)
    if len(updates) >= enough and 2 * lost > len(updates):
        worst = max((loss for loss in losses.values() if np.isfinite(loss)), default=float("nan"))
        return f"the training of {lost} of {len(updates)} clients blew up (largest loss {worst:.3g})"
    if not small:
        return f"the new model has a weight of {np.abs(weights).max():.3g}"
    if validation is not None and not validation <= LOSS:
        return f"the new model has a validation loss of {validation:.3g}"
    return ""


def _blew_up(update: ClientUpdate, losses: Mapping[str, float], size: int) -> bool:
    """Whether a client's training went astray; what is no update at all is left to the checks of updates."""
    if not abs(losses.get(str(update.client), 0.0)) <= LOSS:
        return True
    weights = update.weights
    usual = isinstance(weights, np.ndarray) and weights.ndim == 1 and weights.dtype.kind == "f"
    return usual and not _small(weights[:size])


def _small(weights: Floats) -> bool:
    """Whether all weights are finite and of a usual size; NaN compares as false."""
    # The sum of their squares shows it in one pass, but for huge models.
    return bool(squared(weights) <= WEIGHT**2 or (np.abs(weights) <= WEIGHT).all())


def advice(number: int, seen: str, lr: float) -> str:
    """Say what happened and what to try.

    >>> advice(3, "the new model has a weight of 2e+09", 1e6)
    'Training diverged in round 3: the new model has a weight of 2e+09. The model before that round is kept. Try a
    smaller train.lr (now 1e+06), or look for huge values in the features.'
    """
    return (
        f"Training diverged in round {number}: {seen}. The model before that round is kept. "
        f"Try a smaller train.lr (now {lr:g}), or look for huge values in the features."
    )
