"""Updates are checked before they are used: one broken client must not break everybody's model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glocalfair.types import ClientUpdate


def problem(update: ClientUpdate, size: int, enrolled: int) -> str | None:
    """Return why an update must not be used, or None if it may.

    Parameters
    ----------
    update
        What the client sent.
    size
        Length of the global weight vector.
    enrolled
        Number of examples that the client enrolled with.
    """
    weights = np.asarray(update.weights)
    if weights.shape != (size,):
        return f"weights of shape {weights.shape}, expected ({size},)"
    if not np.issubdtype(weights.dtype, np.floating):
        return f"weights of type {weights.dtype}, expected floats"
    if not np.isfinite(weights).all():
        return f"{int((~np.isfinite(weights)).sum())} weights are not finite"
    if update.examples != enrolled:
        return f"{update.examples} examples, enrolled with {enrolled}"
    for key, value in update.payload.items():
        if not isinstance(value, str) and not np.isfinite(np.asarray(value, dtype=float)).all():
            return f"'{key}' is not finite"
    return None


def accept(
    updates: Sequence[ClientUpdate], size: int, enrolled: dict[str, int]
) -> tuple[list[ClientUpdate], dict[str, str]]:
    """Split updates into the usable ones, sorted by client, and the rejected ones with their reasons."""
    rejected = {}
    accepted = []
    for update in sorted(updates, key=lambda u: u.client):
        reason = problem(update, size, enrolled[update.client])
        if reason is None:
            accepted.append(update)
        else:
            rejected[update.client] = reason
    return accepted, rejected
