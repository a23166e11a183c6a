"""Fairness constraints on group rates, one small class each, and their compiled form.

A rate of a binary classifier is affine in its positive predictions: FNR_g = 1 − Σ_{i∈g, y=1} 1[ŷ_i=1] / P_g. So every
constraint ``g ≤ 0`` becomes a row of coefficients over the table *positive predictions by label and column*, where
column 0 is everybody and the others are the values of the sensitive attributes. The table of true predictions gives
the violation; the same coefficients on σ(s) or a hinge give the differentiable proxy. No loop over groups
in a step: constraints are compiled once, before a client trains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from glocalfair.errors import invalid
from glocalfair.types import Attribute, Floats

Mode = Literal["deviation", "absolute"]


@dataclass(frozen=True)
class Constraint:
    """A limit on one rate of each group.

    Parameters
    ----------
    tau
        ``deviation``: how far a group's rate may lie from the reference, on both sides (eq. 5). ``absolute``: the
        highest rate that a group may have (Tables 6 and 7).
    mode
        ``"deviation"`` or ``"absolute"``.
    attributes
        Names of the attributes to protect; None for all.
    """

    tau: float
    mode: Mode = "deviation"
    attributes: tuple[str, ...] | None = None

    rate: ClassVar[str] = ""
    labels: ClassVar[tuple[int, ...]] = ()
    """Labels of the examples that the rate counts."""
    sign: ClassVar[float] = 1.0
    """rate = constant + sign · (positive predictions) / (examples counted)."""
    constant: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        if not self.tau >= 0:
            raise invalid(f"tau_{self.rate}", "a number of at least 0", self.tau)
        if self.mode not in ("deviation", "absolute"):
            raise invalid("mode", "'deviation' or 'absolute'", self.mode)


class FNR(Constraint):
    """False negative rate: the share of a group's positives that the model misses."""

    rate, labels, sign, constant = "fnr", (1,), -1.0, 1.0


class FPR(Constraint):
    """False positive rate: the share of a group's negatives that the model accepts."""

    rate, labels = "fpr", (0,)


class PositiveRate(Constraint):
    """Positive rate: the share of a group that the model accepts, whatever the label."""

    rate, labels = "positive_rate", (0, 1)


CONSTRAINTS: dict[str, type[Constraint]] = {c.rate: c for c in (FNR, FPR, PositiveRate)}


@dataclass(frozen=True, eq=False)
class Compiled:
    """Constraints ``coefficient · table + offset ≤ 0`` of one client, or of several with a leading axis.

    `coefficient` is ``[constraints, 2 labels, columns]``; a constraint on a rate that the client's data does not
    define has zero coefficients, is never violated and is marked in `defined`.
    """

    names: tuple[str, ...]
    tau: Floats
    coefficient: Floats
    offset: Floats
    defined: npt.NDArray[np.bool_]

    def violation(self, table: Floats) -> Floats:
        """Return ``g_i`` (positive = violated) for positive predictions ``[2, columns]``; NaN where undefined."""
        value = np.einsum("...myc,...yc->...m", self.coefficient, table) + self.offset
        return np.where(self.defined, value, np.nan)

    def of(self, client: int) -> Compiled:
        """Return the constraints of one of several clients."""
        return Compiled(self.names, self.tau, self.coefficient[client], self.offset[client], self.defined[client])


def column_names(attributes: Sequence[Attribute]) -> list[tuple[str, str]]:
    """Return (attribute, value) of each column after the first."""
    return [(a.name, value) for a in attributes for value in a.values]


def compile_constraints(
    constraints: Sequence[Constraint],
    counts: Floats,
    attributes: Sequence[Attribute],
    references: Mapping[str, Floats | float] | None = None,
    shrinkage: float = 0.0,
) -> Compiled:
    """Write constraints as rows of coefficients, for one client or for several with a leading axis.

    Parameters
    ----------
    constraints
        What to hold.
    counts
        Examples ``[2 labels, columns]`` of the client.
    attributes
        The sensitive attributes, in column order.
    references
        Rates to deviate from; None for the client's own overall rates (which move with the model).
    shrinkage
        κ: a group of D examples counts with weight D/(D+κ), against the noise of tiny groups.
    """
    names: list[str] = []
    tau: list[float] = []
    # One more than there are constraints, so that there is something to stack without any.
    nothing: Floats = np.zeros(counts.shape[:-2])
    rows: list[Floats] = [np.zeros(counts.shape)]
    offsets, defined = [nothing], [np.isfinite(nothing)]

    def add(name: str, limit: float, row: Floats, offset: Floats, known: npt.NDArray[np.bool_]) -> None:
        names.append(name)
        tau.append(limit)
        rows.append(row)
        offsets.append(np.where(known, offset, -limit))
        defined.append(known)

    for constraint in constraints:
        labels = list(constraint.labels)
        overall = counts[..., labels, 0].sum(-1)
        for column, (attribute, value) in enumerate(column_names(attributes), start=1):
            if constraint.attributes is not None and attribute not in constraint.attributes:
                continue
            size = counts[..., labels, column].sum(-1)
            known = np.asarray(size > 0)
            # A group of nobody has the weight 0, and a row of zeros.
            shrunk = np.where(known, size + shrinkage, 1.0)
            weight = size / shrunk
            row = np.zeros(counts.shape)
            row[..., labels, column] = (constraint.sign * known / shrunk)[..., None]
            name = f"{constraint.rate}({attribute}={value})"
            if constraint.mode == "absolute":
                offset = constraint.constant * weight - constraint.tau
                add(f"{name} <= {constraint.tau:g}", constraint.tau, row, offset, known)
                continue
            shift = nothing
            if references is None:
                row[..., labels, 0] -= (constraint.sign * weight / np.maximum(overall, 1))[..., None]
            else:
                shift = weight * (constraint.constant - references[constraint.rate])
            add(f"{name} high", constraint.tau, row, shift - constraint.tau, known)
            add(f"{name} low", constraint.tau, -row, -shift - constraint.tau, known)
    stacked = np.stack(rows, -3)[..., 1:, :, :], np.stack(offsets, -1)[..., 1:], np.stack(defined, -1)[..., 1:]
    return Compiled(tuple(names), np.array(tau), *stacked)
