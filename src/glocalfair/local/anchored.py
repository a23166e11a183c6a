"""A dual that lives across rounds, anchored to a reference rate.

The paper's game restarts λ at 0 in every round and compares a group with the client's own overall rate. So it reacts
to the freshly trained local model instead of the model that everyone will use, and on a client with one group it asks
for nothing. Here λ belongs to the client and moves once a round, on the *received global* model's true 0-1 rates,
compared with the federation's rates (or public targets). Within the round λ is fixed, so constrained training is plain
training with one extra coefficient for each example.

The state is the *pressure* p_g = n λ_g / D_g on a group with D_g examples that count (positives for FNR, negatives for
FPR): directly the coefficient of σ(s_i) in an example's loss. Stepping p instead of λ gives small and large groups the
same loop gain; with one step size for λ a group of five people would get the factor n/5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glocalfair.local.constraints import Constraint, column_names
from glocalfair.types import ClientData, Floats

_LEAST_VARIANCE = 0.01


@dataclass(frozen=True)
class DualSettings:
    """How the pressure moves.

    Attributes
    ----------
    lr
        η_λ: how far a violation moves the pressure in a round.
    decay
        Share of the pressure that is forgotten each round. The leak makes the dual proportional in the long run: the
        noise of small groups, different on every client, then cancels in the average of the clients instead of
        adding up, and a pressure that all groups share fades.
    shrinkage
        κ: a violation of a group with D examples counts D/(D+κ).
    clip
        c_max: bound of a pressure and of an example's coefficient.
    """

    lr: float
    decay: float
    shrinkage: float
    clip: float


@dataclass(frozen=True, eq=False)
class Deviation:
    """A constraint on a client's rows.

    Attributes
    ----------
    value
        Each group's deviation from the reference ``[columns]``; NaN where undefined.
    felt
        The deviation that moves the dual: the client's own distance from the reference is part of the deviation in
        every attribute, but shall count once, so each of A attributes takes 1/A of it.
    size
        Examples that count, in each group.
    reference
        The reference rate.
    """

    value: Floats
    felt: Floats
    size: Floats
    reference: float


def deviation(constraint: Constraint, data: ClientData, logits: Floats, reference: float | None) -> Deviation:
    """Measure a constraint with true predictions.

    ``deviation``: a group's rate minus the reference (None: the client's own overall rate). ``absolute``: rate − τ.
    """
    rows, size = data.with_label(constraint.labels)
    accepted = rows & (logits > 0)
    own = constraint.constant + constraint.sign * float(accepted.sum()) / max(int(rows.sum()), 1)
    if constraint.mode == "absolute":
        reference = constraint.tau
    elif reference is None:
        reference = own
    names = [name for name, _ in column_names(data.attributes)]
    covered = np.array([constraint.attributes is None or name in constraint.attributes for name in names], dtype=bool)
    known = np.where((size > 0) & covered, size, np.nan)
    rate = constraint.constant + constraint.sign * (accepted @ data.members) / known
    value = rate - reference
    attributes = max(1, len(data.attributes if constraint.attributes is None else constraint.attributes))
    shared = 0.0 if constraint.mode == "absolute" else (own - reference) * (1 - 1 / attributes)
    return Deviation(value, value - shared, size, reference)


def violation(constraint: Constraint, measured: Deviation) -> Floats:
    """Return how far each group is beyond its limit: positive = violated, NaN = undefined."""
    value: Floats = measured.value if constraint.mode == "absolute" else np.abs(measured.value) - constraint.tau
    return value


def ascend(constraint: Constraint, pressure: Floats, measured: Deviation, settings: DualSettings) -> Floats:
    """Move the pressure: signed (both one-sided constraints in one number) for a deviation, else ≥ 0.

    The violation is measured in units of 2√(r(1−r)), twice the standard deviation of one outcome at the reference rate
    r: three points are much for an FPR of 5 % and little for an FNR of 40 %, and a small rate moves less when pushed.
    """
    gap = measured.felt
    if constraint.mode == "deviation":
        gap = np.sign(gap) * np.maximum(np.abs(gap) - constraint.tau, 0)
    spread = max(measured.reference * (1 - measured.reference), _LEAST_VARIANCE) ** 0.5
    weight = measured.size / np.maximum(measured.size + settings.shrinkage, 1)
    step = settings.lr * weight * np.nan_to_num(gap, nan=0.0) / (2 * spread)
    least = 0.0 if constraint.mode == "absolute" else -settings.clip
    moved: Floats = np.clip((1 - settings.decay) * pressure + step, least, settings.clip)
    return moved


def coefficients(
    constraints: Sequence[Constraint],
    pressures: Floats,
    data: ClientData,
    clip: float,
    moving_reference: bool,
) -> Floats:
    """Return the coefficient c_i of σ(s_i) for each training example.

    For FNR c_i = −Σ_{g∋i} p_g on positives, for FPR c_i = +Σ_{g∋i} p_g on negatives. When the reference is the client's
    own overall rate it moves with the model too: the opposite overall term is added.
    """
    result = np.zeros(len(data))
    for constraint, pressure in zip(constraints, pressures, strict=True):
        rows, size = data.with_label(constraint.labels)
        if not rows.any():
            continue
        share = data.members @ pressure
        if moving_reference and constraint.mode == "deviation":
            share = share - pressure @ size / rows.sum()
        result += constraint.sign * np.where(rows, share, 0.0)
    return np.clip(result, -clip, clip)


def multipliers(constraint: Constraint, pressure: Floats, data: ClientData) -> Floats:
    """Return λ_g = p_g D_g / n, the Lagrange multipliers of the rates."""
    value: Floats = pressure * data.with_label(constraint.labels)[1] / max(len(data), 1)
    return value
