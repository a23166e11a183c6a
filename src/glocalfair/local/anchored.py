"""A dual that lives across rounds, anchored to a reference rate.

The paper's game restarts λ at 0 in every round and compares a group with the client's own overall rate. So it reacts
to the freshly trained local model instead of the model that everyone will use, and on a client with one group it asks
for nothing. Here λ belongs to the client and moves once a round, on the *received global* model's true 0-1 rates,
compared with the federation's rates (or public targets). Within the round λ is fixed, so constrained training is plain
training with one extra coefficient for each example.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from glocalfair.local.constraints import Constraint, column_names
from glocalfair.types import ClientData, Floats


@dataclass(frozen=True)
class DualSettings:
    """How the persistent dual moves.

    Attributes
    ----------
    lr
        η_λ: how far a violation moves the multiplier in a round.
    decay
        Share of the multiplier that is forgotten each round. A leak makes the dual proportional in the long run: the
        noise of small groups, different on every client, then cancels in the average instead of adding up.
    limit
        λ_max: bound of a multiplier.
    shrinkage
        κ: a group of P examples counts with weight P/(P+κ).
    clip
        c_max: bound of an example's coefficient.
    """

    lr: float = 2.0
    decay: float = 0.0
    limit: float = 2.0
    shrinkage: float = 50.0
    clip: float = 2.0
    scaled: bool = False
    fpr_gain: float = 1.0


def memberships(data: ClientData) -> Floats:
    """Return 0/1 columns ``[rows, values of all attributes]``."""
    parts = [data.groups[:, [a]] == np.arange(len(attribute.values)) for a, attribute in enumerate(data.attributes)]
    return np.concatenate(parts, 1).astype(float) if parts else np.zeros((len(data), 0))


def counted(constraint: Constraint, data: ClientData) -> npt.NDArray[np.bool_]:
    """Return which examples the constraint's rate counts: the positives for FNR, the negatives for FPR."""
    return np.isin(data.y, constraint.labels)


def violation(
    constraint: Constraint,
    data: ClientData,
    members: Floats,
    logits: Floats,
    reference: float | None,
    shrinkage: float,
) -> Floats:
    """Return each group's violation on true predictions; NaN where the group has no such examples.

    ``deviation``: the signed distance from the reference beyond τ (None: from the client's own overall rate).
    ``absolute``: rate − τ. Both are shrunk by P/(P+κ).
    """
    rows = counted(constraint, data)
    accepted = rows & (logits > 0)
    size = rows @ members
    known = np.where(size > 0, size, np.nan)
    rate = constraint.constant + constraint.sign * (accepted @ members) / known
    weight = size / (size + shrinkage + (size == 0))
    if constraint.mode == "absolute":
        gap = (rate - constraint.tau) * weight
    else:
        if reference is None:
            reference = constraint.constant + constraint.sign * accepted.sum() / max(int(rows.sum()), 1)
        deviation = (rate - reference) * weight
        gap = np.sign(deviation) * np.maximum(np.abs(deviation) - constraint.tau, 0)
    names = [name for name, _ in column_names(data.attributes)]
    covered = [constraint.attributes is None or name in constraint.attributes for name in names]
    return np.where(covered, gap, np.nan)


def ascend(constraint: Constraint, multiplier: Floats, gap: Floats, settings: DualSettings, size, len_) -> Floats:
    """Move the multipliers: signed (λ⁺ − λ⁻ of the two one-sided constraints) for a deviation, else ≥ 0."""
    lr = settings.lr * (size + settings.shrinkage) / max(len_, 1) if settings.scaled else settings.lr
    if constraint.rate == "fpr":
        lr = lr * settings.fpr_gain
    moved = (1 - settings.decay) * multiplier + lr * np.nan_to_num(gap, nan=0.0)
    return np.clip(moved, 0.0 if constraint.mode == "absolute" else -settings.limit, settings.limit)


def coefficients(
    constraints: Sequence[Constraint],
    multipliers: Sequence[Floats],
    data: ClientData,
    members: Floats,
    settings: DualSettings,
    moving_reference: bool,
) -> Floats:
    """Return the coefficient c_i of σ(s_i) for each training example.

    For FNR c_i = −n Σ_{g∋i} u_g/(P_g+κ) on positives, for FPR c_i = +n Σ_{g∋i} v_g/(N_g+κ) on negatives. When the
    reference is the client's own overall rate it moves with the model too: the opposite overall term is added.
    """
    result = np.zeros(len(data))
    for constraint, multiplier in zip(constraints, multipliers, strict=True):
        rows = counted(constraint, data)
        if not rows.any():
            continue
        size = rows @ members
        share = members[rows] @ (multiplier / (size + settings.shrinkage + (size == 0)))
        if moving_reference and constraint.mode == "deviation":
            share = share - multiplier.sum() / rows.sum()
        result[rows] += constraint.sign * len(data) * share
    return np.clip(result, -settings.clip, settings.clip)
