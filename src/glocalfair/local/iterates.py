"""Which iterate of a constrained stage a client keeps. Candidate 0 is the unconstrained model."""

from __future__ import annotations

from typing import Literal

import numpy as np

from glocalfair.types import Floats

Rule = Literal["best", "tfco", "last", "random"]


def choose(
    loss: Floats,
    violation: Floats,
    rule: Rule,
    tolerance: float,
    random: np.random.Generator | None = None,
    objective: Floats | None = None,
) -> int:
    """Choose a candidate from its loss f and its largest violation V, both on validation data.

    ``best``: feasible first (V ≤ tolerance), then the lowest f; if none is feasible the lowest V, ties by f.
    ``tfco``: the smallest max(rank of f, rank of V), ties to the lower f, then to the later one.
    ``last``: the last iterate. ``random``: one of the constrained iterates, drawn with probability ∝ λ₁ (`objective`,
    the weight of the objective at that iterate; alike for the Lagrangian): a draw from θ̄ of Theorem 1.

    >>> loss, violation = np.array([0.30, 0.32, 0.40]), np.array([0.10, 0.0, 0.0])
    >>> choose(loss, violation, "best", 0.0)
    1
    """
    count = len(loss)
    if rule == "last":
        return count - 1
    if rule == "random":
        if count == 1:
            return 0
        assert random is not None, "somebody has to draw"
        weight = np.ones(count - 1) if objective is None or objective[1:].sum() == 0 else objective[1:]
        return 1 + int(random.choice(count - 1, p=weight / weight.sum()))
    if rule == "tfco":
        rank = np.maximum(_rank(loss), _rank(violation))
        return min(range(count), key=lambda j: (rank[j], loss[j], -j))
    feasible = violation <= tolerance
    if feasible.any():
        return int(np.where(feasible, loss, np.inf).argmin())
    return min(range(count), key=lambda j: (violation[j], loss[j]))


def _rank(values: Floats) -> Floats:
    """Rank ascending from 0; equal values share the smallest rank."""
    result: Floats = (values[None, :] < values[:, None]).sum(1).astype(float)
    return result
