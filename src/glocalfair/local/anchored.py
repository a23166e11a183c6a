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
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

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
class Asked:
    """Constraints as arrays, one row for each: ``[constraints, 1]``, or a column for each group.

    Attributes
    ----------
    names, limits
        Of each constraint on each group, one after the other: its name and its τ.
    rates
        The rate that each constraint is on.
    labels
        1 for a label whose examples the rate counts ``[constraints, 2]``.
    sign, constant, tau
        See `glocalfair.local.constraints.Constraint`.
    absolute
        Whether the rate itself is limited, not its deviation.
    covered
        Whether the group is one of those to protect.
    common
        How much of a client's own distance from the reference is left out of each group's deviation (see `Deviation`).
    """

    names: tuple[str, ...]
    limits: tuple[float, ...]
    rates: tuple[str, ...]
    labels: Floats
    sign: Floats
    constant: Floats
    tau: Floats
    absolute: npt.NDArray[np.bool_]
    covered: npt.NDArray[np.bool_]
    common: Floats


@lru_cache(maxsize=64)
def asked(constraints: tuple[Constraint, ...], attributes: tuple[Attribute, ...]) -> Asked:
    """Write constraints on the groups of some attributes as arrays."""
    groups = column_names(attributes)
    protected = [[name for name, _ in groups] if c.attributes is None else c.attributes for c in constraints]
    counting = [max(1, len(attributes if c.attributes is None else c.attributes)) for c in constraints]
    absolute = np.array([[c.mode == "absolute"] for c in constraints])
    return Asked(
        names=tuple(f"{c.rate}({name}={value})" for c in constraints for name, value in groups),
        limits=tuple(c.tau for c in constraints for _ in groups),
        rates=tuple(c.rate for c in constraints),
        labels=np.array([[float(label in c.labels) for label in (0, 1)] for c in constraints]),
        sign=np.array([[c.sign] for c in constraints]),
        constant=np.array([[c.constant] for c in constraints]),
        tau=np.array([[c.tau] for c in constraints]),
        absolute=absolute,
        covered=np.array([[name in own for name, _ in groups] for own in protected]),
        common=np.where(absolute, 0.0, 1 - 1 / np.array(counting, dtype=float)[:, None]),
    )


@dataclass(frozen=True, eq=False)
class Counted:
    """A model's true predictions on the rows of several clients.

    Attributes
    ----------
    examples, accepted
        All examples and the accepted ones ``[clients, 2 labels, 1 + columns]``; column 0 is everybody.
    kinds
        Which combination of client, label and groups each row is of, client by client.
    cells
        Where each of them counts in such a table ``[1 + attributes, combinations]``.
    rows
        How many rows each client has.
    """

    examples: Floats
    accepted: Floats
    kinds: Ints
    cells: Ints
    rows: list[int]

    @property
    def totals(self) -> Floats:
        """False negatives, positives, false positives and negatives of each client."""
        negatives, positives = self.examples[:, :, 0].T
        accepted, caught = self.accepted[:, :, 0].T
        return np.stack([positives - caught, positives, accepted, negatives], 1)


def counted(data: Sequence[ClientData], logits: Sequence[Floats]) -> Counted:
    """Count predictions on the rows of each client."""
    shape = len(data), 2, 1 + len(column_names(data[0].attributes))
    rows = [len(each) for each in logits]
    kinds, cells = zip(*(each.combinations for each in data), strict=True)
    many = [own.shape[1] for own in cells]
    kind = np.concatenate(kinds) + np.repeat(np.cumsum([0, *many[:-1]]), rows)
    cell = np.concatenate(cells, 1) + np.repeat(np.arange(shape[0]) * (2 * shape[2]), many)
    found = np.bincount(2 * kind + (np.concatenate(logits) > 0), minlength=2 * sum(many)).reshape(-1, 2)
    # From combinations to a table: few numbers, whatever the rows.
    places = 2 * cell[:, :, None] + np.arange(2)
    table = np.bincount(places.ravel(), np.broadcast_to(found, places.shape).ravel(), 2 * prod(shape))
    counts = table.astype(float).reshape(*shape, 2)
    return Counted(counts.sum(3), counts[..., 1], kind, cell, rows)


@dataclass(frozen=True, eq=False)
class Deviation:
    """Constraints on the rows of each client.

    Attributes
    ----------
    value
        Each group's deviation from the reference ``[clients, constraints, columns]``; NaN where undefined.
    felt
        The deviation that moves the dual: the client's own distance from the reference is part of the deviation in
        every attribute, but shall count once, so each of A attributes takes 1/A of it.
    size
        Examples that count, in each group.
    reference
        The reference rate ``[clients, constraints, 1]``.
    """

    value: Floats
    felt: Floats
    size: Floats
    reference: Floats


def deviation(asked: Asked, counts: Counted, references: Floats | None) -> Deviation:
    """Measure constraints with true predictions.

    ``deviation``: a group's rate minus the reference of its client ``[clients, constraints]`` (None: the client's own
    overall rate). ``absolute``: rate − τ.
    """
    examples, accepted = asked.labels @ counts.examples, asked.labels @ counts.accepted
    own = asked.constant + asked.sign * accepted[..., :1] / np.maximum(examples[..., :1], 1)
    against = np.where(asked.absolute, asked.tau, own if references is None else references[..., None])
    size = examples[..., 1:]
    known = np.where((size > 0) & asked.covered, size, np.nan)
    value = asked.constant + asked.sign * accepted[..., 1:] / known - against
    return Deviation(value, value - (own - against) * asked.common, size, against)


def violation(asked: Asked, value: Floats) -> Floats:
    """Return how far each group is beyond its limit: positive = violated, NaN = undefined."""
    return np.where(asked.absolute, value, np.abs(value) - asked.tau)


def ascend(asked: Asked, pressure: Floats, measured: Deviation, settings: DualSettings) -> Floats:
    """Move the pressure: signed (both one-sided constraints in one number) for a deviation, else ≥ 0.

    The violation is measured in units of 2√(r(1−r)), twice the standard deviation of one outcome at the reference rate
    r: three points are much for an FPR of 5 % and little for an FNR of 40 %, and a small rate moves less when pushed.
    """
    gap = measured.felt
    gap = np.where(asked.absolute, gap, np.sign(gap) * np.maximum(np.abs(gap) - asked.tau, 0))
    spread = np.maximum(measured.reference * (1 - measured.reference), _LEAST_VARIANCE) ** 0.5
    weight = measured.size / np.maximum(measured.size + settings.shrinkage, 1)
    step = settings.lr * weight * np.where(np.isnan(gap), 0.0, gap) / (2 * spread)
    least = np.where(asked.absolute, 0.0, -settings.clip)
    moved: Floats = np.clip((1 - settings.decay) * pressure + step, least, settings.clip)
    return moved


def coefficients(asked: Asked, pressures: Floats, counts: Counted, clip: float, moving_reference: bool) -> list[Floats]:
    """Return the coefficient c_i of σ(s_i) for each training example of each client.

    For FNR c_i = −Σ_{g∋i} p_g on positives, for FPR c_i = +Σ_{g∋i} p_g on negatives. When the reference is the client's
    own overall rate it moves with the model too: the opposite overall term is added. `pressures` has the shape
    ``[clients, constraints, columns]``.
    """
    forces = np.zeros(counts.examples.shape)
    force = asked.sign * pressures
    forces[..., 1:] = asked.labels.T @ force
    if moving_reference:
        size = asked.labels @ counts.examples
        overall = (force * size[..., 1:]).sum(2, keepdims=True) / np.maximum(size[..., :1], 1)
        forces[..., :1] = -(asked.labels.T @ np.where(asked.absolute, 0.0, overall))
    each = np.clip(forces.ravel()[counts.cells].sum(0), -clip, clip)
    ends = np.cumsum(counts.rows).tolist()
    result = each[counts.kinds]
    return [result[end - rows : end] for rows, end in zip(counts.rows, ends, strict=True)]


def multipliers(asked: Asked, pressures: Floats, counts: Counted) -> Floats:
    """Return λ_g = p_g D_g / n, the Lagrange multipliers of the rates."""
    size = asked.labels @ counts.examples[..., 1:]
    value: Floats = pressures * size / np.maximum(counts.examples[:, :, :1].sum(1, keepdims=True), 1)
    return value
