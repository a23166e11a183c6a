"""A dual that lives across rounds, anchored to a reference rate.

The paper's game restarts λ at 0 in every round and compares a group with the client's own overall rate. So it reacts
to the freshly trained local model instead of the model that everyone will use, and on a client with one group it asks
for nothing. Here λ belongs to the client and moves once a round, on the *received global* model's true 0-1 rates,
compared with the federation's rates (or public targets). Within the round λ is fixed, so constrained training is plain
training with one extra coefficient for each example.

The state is the *pressure* p_g = n λ_g / D_g on a group with D_g examples that count (positives for FNR, negatives for
FPR): directly the coefficient of σ(s_i) in an example's loss. Stepping p instead of λ gives small and large groups the
same loop gain; with one step size for λ a group of five people would get the factor n/5.

All functions are for several clients at once: one axis of clients, and nothing of one reaches another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from glocalfair.local.constraints import Constraint, column_names
from glocalfair.types import Attribute, ClientData, Floats, Ints

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
class Counted:
    """A model's true predictions on the rows of several clients.

    Attributes
    ----------
    examples, accepted
        All examples and the accepted ones ``[clients, 2 labels, 1 + columns]``; column 0 is everybody.
    cells
        Where each row counts in such a table ``[1 + attributes, rows]``, client by client.
    rows
        How many rows each client has.
    """

    examples: Floats
    accepted: Floats
    cells: Ints
    rows: list[int]

    @property
    def totals(self) -> Floats:
        """False negatives, positives, false positives and negatives of each client."""
        negatives, positives = self.examples[:, :, 0].T
        accepted, caught = self.accepted[:, :, 0].T
        return np.stack([positives - caught, positives, accepted, negatives], 1)

    def of(self, constraint: Constraint) -> tuple[Floats, Floats]:
        """Return examples and accepted ones that a constraint's rate counts ``[clients, 1 + columns]``."""
        labels = list(constraint.labels)
        return self.examples[:, labels].sum(1), self.accepted[:, labels].sum(1)


def counted(data: Sequence[ClientData], logits: Sequence[Floats]) -> Counted:
    """Count predictions on the rows of each client."""
    shape = len(data), 2, 1 + len(column_names(data[0].attributes))
    rows = [len(each) for each in logits]
    client = np.repeat(np.arange(shape[0]) * (2 * shape[2]), rows)
    cells = np.concatenate([each.cells for each in data], 1) + client
    found = np.bincount((2 * cells + (np.concatenate(logits) > 0)).ravel(), minlength=2 * prod(shape))
    table = found.reshape(*shape, 2).astype(float)
    return Counted(table.sum(3), table[..., 1], cells, rows)


@dataclass(frozen=True, eq=False)
class Deviation:
    """A constraint on the rows of each client.

    Attributes
    ----------
    value
        Each group's deviation from the reference ``[clients, columns]``; NaN where undefined.
    felt
        The deviation that moves the dual: the client's own distance from the reference is part of the deviation in
        every attribute, but shall count once, so each of A attributes takes 1/A of it.
    size
        Examples that count, in each group.
    reference
        The reference rate ``[clients, 1]``.
    """

    value: Floats
    felt: Floats
    size: Floats
    reference: Floats


def deviation(
    constraint: Constraint, counts: Counted, attributes: Sequence[Attribute], reference: Floats | None
) -> Deviation:
    """Measure a constraint with true predictions.

    ``deviation``: a group's rate minus the reference of its client (None: the client's own overall rate).
    ``absolute``: rate − τ.
    """
    examples, accepted = counts.of(constraint)
    own = constraint.constant + constraint.sign * accepted[:, :1] / np.maximum(examples[:, :1], 1)
    against = own if reference is None else reference[:, None]
    if constraint.mode == "absolute":
        against = np.full_like(own, constraint.tau)
    names = [name for name, _ in column_names(attributes)]
    covered = np.array([constraint.attributes is None or name in constraint.attributes for name in names], dtype=bool)
    size = examples[:, 1:]
    known = np.where((size > 0) & covered, size, np.nan)
    value = constraint.constant + constraint.sign * accepted[:, 1:] / known - against
    counting = max(1, len(attributes if constraint.attributes is None else constraint.attributes))
    shared = 0.0 if constraint.mode == "absolute" else (own - against) * (1 - 1 / counting)
    return Deviation(value, value - shared, size, against)


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
    spread = np.maximum(measured.reference * (1 - measured.reference), _LEAST_VARIANCE) ** 0.5
    weight = measured.size / np.maximum(measured.size + settings.shrinkage, 1)
    step = settings.lr * weight * np.where(np.isnan(gap), 0.0, gap) / (2 * spread)
    least = 0.0 if constraint.mode == "absolute" else -settings.clip
    moved: Floats = np.clip((1 - settings.decay) * pressure + step, least, settings.clip)
    return moved


def coefficients(
    constraints: Sequence[Constraint], pressures: Floats, counts: Counted, clip: float, moving_reference: bool
) -> list[Floats]:
    """Return the coefficient c_i of σ(s_i) for each training example of each client.

    For FNR c_i = −Σ_{g∋i} p_g on positives, for FPR c_i = +Σ_{g∋i} p_g on negatives. When the reference is the client's
    own overall rate it moves with the model too: the opposite overall term is added. `pressures` has the shape
    ``[clients, constraints, columns]``.
    """
    forces = np.zeros(counts.examples.shape)
    for number, constraint in enumerate(constraints):
        force = constraint.sign * pressures[:, number]
        forces[:, constraint.labels, 1:] += force[:, None]
        if moving_reference and constraint.mode == "deviation":
            size = counts.of(constraint)[0]
            overall = (force * size[:, 1:]).sum(1) / np.maximum(size[:, 0], 1)
            forces[:, constraint.labels, 0] -= overall[:, None]
    result = np.clip(forces.ravel()[counts.cells].sum(0), -clip, clip)
    ends = np.cumsum(counts.rows).tolist()
    return [result[end - rows : end] for rows, end in zip(counts.rows, ends, strict=True)]


def multipliers(constraint: Constraint, pressure: Floats, counts: Counted) -> Floats:
    """Return λ_g = p_g D_g / n, the Lagrange multipliers of the rates."""
    rows = counts.examples[:, :, :1].sum(1)
    value: Floats = pressure * counts.of(constraint)[0][:, 1:] / np.maximum(rows, 1)
    return value
