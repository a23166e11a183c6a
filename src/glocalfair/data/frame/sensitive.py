"""A sensitive column, as it is or cut into bins: ``sex``, ``age:<40``, ``age:25,40,60``."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from glocalfair.data.frame.values import MISSING, codes, numbers, text
from glocalfair.errors import GlocalfairError, invalid, unknown
from glocalfair.types import Attribute, Ints

if TYPE_CHECKING:
    import polars as pl

MAX_VALUES = 50
SMALL_GROUP = 20
_TOO_MANY_NUMBERS = 20
_CUT = re.compile(r"(<=?|>=?)?\s*(.+)")


@dataclass(frozen=True)
class Sensitive:
    """How the groups of one attribute are read from a table.

    Attributes
    ----------
    column
        Where they are.
    values
        Names of the groups, in code order; ``(missing)`` among them if missing values are a group.
    edges
        Where a number is cut into bins; empty for a categorical column.
    closed
        Whether an edge belongs to the bin below it (``<=40``) and not to the one above (``<40``).
    """

    column: str
    values: tuple[str, ...]
    edges: tuple[float, ...] = ()
    closed: bool = False

    @property
    def attribute(self) -> Attribute:
        """The attribute as metrics and methods see it."""
        return Attribute(self.column, self.values)

    def code(self, column: pl.Series, missing_values: Collection[str]) -> npt.NDArray[np.int32]:
        """Return the group of each row; −1 where the value is missing or unknown."""
        if self.edges:
            number, _ = numbers(column, missing_values)
            found = np.searchsorted(self.edges, number, side="left" if self.closed else "right").astype(np.int32)
            found[np.isnan(number)] = -1
            empty = np.isnan(number)
        else:
            strings = text(column, missing_values)
            found = codes(strings, self.values).copy()
            empty = strings.is_null().to_numpy()
        if MISSING in self.values:
            found[empty] = self.values.index(MISSING)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "column": self.column,
            "values": list(self.values),
            "edges": list(self.edges),
            "closed": self.closed,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Sensitive:
        """Undo `to_dict`."""
        return cls(
            str(values["column"]),
            tuple(map(str, values["values"])),
            tuple(map(float, values["edges"])),
            bool(values["closed"]),
        )


def parse(spec: str, columns: Collection[str]) -> tuple[str, tuple[float, ...], bool]:
    """Read ``column`` or ``column:bins``; a column whose name has a colon in it is found first.

    >>> parse("age:<=40", ["age"]), parse("age:25,40", ["age"])
    (('age', (40.0,), True), ('age', (25.0, 40.0), False))
    """
    if spec in columns:
        return spec, (), False
    column, colon, bins = spec.rpartition(":")
    if not colon or column not in columns:
        raise unknown("sensitive column", column if colon else spec, columns)
    example = f"For instance '{column}:<40' or '{column}:25,40,60'."
    matched = _CUT.fullmatch(bins.strip())
    if not matched:
        raise invalid("sensitive", "a column with bins", spec, example)
    sign, numbers_text = matched.groups()
    try:
        edges = tuple(float(number) for number in numbers_text.split(","))
    except ValueError:
        raise invalid("sensitive", "a column with bins", spec, example) from None
    if not all(np.isfinite(edges)) or list(edges) != sorted(set(edges)) or (sign and len(edges) > 1):
        raise invalid("sensitive", "a column with bins in ascending order", spec, example)
    return column, edges, sign in ("<=", ">")


def bin_names(edges: tuple[float, ...], closed: bool) -> tuple[str, ...]:
    """Name the bins.

    >>> bin_names((25.0, 40.0), False), bin_names((40.0,), True)
    (('<25', '[25, 40)', '>=40'), ('<=40', '>40'))
    """
    ends = [f"{edge:g}" for edge in edges]
    left, right = ("(", "]") if closed else ("[", ")")
    between = (f"{left}{a}, {b}{right}" for a, b in pairwise(ends))
    below, above = ("<=", ">") if closed else ("<", ">=")
    return (f"{below}{ends[0]}", *between, f"{above}{ends[-1]}")


def infer(spec: str, frame: pl.DataFrame, missing_values: Collection[str], missing: str) -> Sensitive:
    """Find the groups of a sensitive column in a table."""
    column, edges, closed = parse(spec, frame.columns)
    series = frame[column]
    if edges:
        number, _ = numbers(series, missing_values)
        if np.isnan(number).all():
            raise GlocalfairError(f"The sensitive column '{column}' has no numbers to cut into bins.")
        found: tuple[str, ...] = bin_names(edges, closed)
        gaps = bool(np.isnan(number).any())
    else:
        strings = text(series, missing_values)
        found = tuple(sorted(strings.drop_nulls().unique().to_list(), key=_natural))
        gaps = strings.null_count() > 0
        if series.dtype.is_numeric() and len(found) > _TOO_MANY_NUMBERS:
            raise GlocalfairError(
                f"The sensitive column '{column}' is a number with {len(found):,} values. "
                f"Cut it into bins, for instance '{column}:<{_middle(series)}'."
            )
        if len(found) > MAX_VALUES:
            raise GlocalfairError(
                f"The sensitive column '{column}' has {len(found):,} values; at most {MAX_VALUES} can be compared. "
                "Merge the small ones first."
            )
    if gaps and missing == "group" and MISSING not in found:
        found = (*found, MISSING)
    result = Sensitive(column, found, edges, closed)
    used = np.unique(result.code(series, missing_values))
    if len(used[used >= 0]) < 2:
        only = f"'{found[used[-1]]}'" if len(used) and used[-1] >= 0 else "missing values"
        raise GlocalfairError(f"The sensitive column '{column}' has one group only, {only}: nothing to compare.")
    return result


def few_rows(codes: Ints, attributes: Sequence[Attribute]) -> list[str]:
    """Warn of groups with few rows, a line for each attribute.

    >>> few_rows(np.array([[0]] * 30 + [[1]] * 3), [Attribute("sex", ("F", "M"))])
    ["Few rows for 'sex': M (3). Rates of such groups are mostly chance."]
    """
    notes = []
    for column, attribute in zip(codes.T, attributes, strict=True):
        sizes = np.bincount(column, minlength=len(attribute.values))
        few = [f"{value} ({size})" for value, size in zip(attribute.values, sizes, strict=True) if size < SMALL_GROUP]
        if few:
            notes.append(f"Few rows for '{attribute.name}': {', '.join(few)}. Rates of such groups are mostly chance.")
    return notes


def is_missing(column: pl.Series, binned: bool, missing_values: Collection[str]) -> npt.NDArray[np.bool_]:
    """Mark the rows without a value; for bins also those without a number."""
    if binned:
        mask: npt.NDArray[np.bool_] = np.isnan(numbers(column, missing_values)[0])
        return mask
    return text(column, missing_values).is_null().to_numpy()


def _natural(value: str) -> tuple[int, float, str]:
    """Sort numbers by size and before words."""
    try:
        return 0, float(value), value
    except ValueError:
        return 1, 0.0, value


def _middle(series: pl.Series) -> str:
    median: Any = series.median()
    return f"{median:.3g}"
