"""The published schema: columns, categories and ranges that every site's table must fit, without pooling any data.

It is a `FrameSchema` (for pictures: of the table beside them) and, for each numeric column, a range, a centre and a
scale, and whether values may be missing.
Inputs are ``(value − centre) / scale``; with ``standardise = "totals"`` the federation's own mean and standard
deviation take their place, from three totals for each column that a site sends once (they can be added up securely).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from glocalfair.data.encoder import Encoder
from glocalfair.data.frame.options import FrameOptions
from glocalfair.data.frame.schema import FrameSchema, Misfit
from glocalfair.data.images.listing import LEAST_SIDE
from glocalfair.errors import GlocalfairError, invalid
from glocalfair.options import from_mapping
from glocalfair.types import Dataset, Floats, Ints

if TYPE_CHECKING:
    import polars as pl

FORMAT = 1
MOST_SIDE = 4096


@dataclass(frozen=True)
class Column:
    """What is publicly known of a numeric column."""

    low: float
    high: float
    centre: float
    scale: float
    missing: bool = False

    @classmethod
    def from_dict(cls, name: str, values: Mapping[str, Any]) -> Column:
        """Read a column; without centre and scale they follow from the range."""
        try:
            low, high = float(values["low"]), float(values["high"])
            centre = float(values.get("centre", (low + high) / 2))
            # Two standard deviations to each side hold most of a column.
            scale = float(values.get("scale", (high - low) / 4))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise GlocalfairError(f"Column '{name}' of the schema needs numbers 'low' and 'high'.") from error
        if not (math.isfinite(low) and low <= high < math.inf and math.isfinite(centre) and 0 <= scale < math.inf):
            raise invalid(f"columns.{name}", "low ≤ high, a centre and a scale of at least 0", dict(values))
        return cls(low, high, centre, scale, bool(values.get("missing", False)))


@dataclass(frozen=True)
class Pictures:
    """What every site makes of its pictures, and the columns of the table beside them."""

    side: int
    """Width and height: the central square, resized."""
    channels: int = 3
    file: str = "file"
    """The column with the picture's path, relative to the table."""
    unit: str | None = None
    """The column that says whose picture it is: nobody's pictures are torn apart between training and test."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Pictures:
        """Undo `vars`."""
        found = from_mapping(cls, values, "key in 'pictures' of the schema")
        if not LEAST_SIDE <= found.side <= MOST_SIDE:
            raise invalid("pictures.side", f"a whole number from {LEAST_SIDE} to {MOST_SIDE}", found.side)
        if found.channels != 3:
            raise invalid("pictures.channels", "3 (red, green, blue)", found.channels)
        return found


class Fit(NamedTuple):
    """A site's table as the schema reads it, and a line for everything that does not fit."""

    dataset: Dataset
    lines: list[str]


@dataclass(frozen=True)
class PublicSchema:
    """How every site reads its table."""

    frame: FrameSchema
    columns: tuple[Column, ...]
    """In the order of `FrameSchema.numeric`."""
    pictures: Pictures | None = None
    """If the inputs are pictures; the table has then no other input."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row of inputs."""
        if self.pictures is None:
            return (len(self.encoder().names),)
        return (self.pictures.channels, self.pictures.side, self.pictures.side)

    def lines(self, misfit: Misfit) -> list[str]:
        """Say what does not fit."""
        return [line.replace("that the model has never seen", "not in the schema") for line in misfit.lines()]

    def fit(self, frame: pl.DataFrame, name: str = "site") -> Fit:
        """Read a table and say what does not fit; a table that lacks a column is an error.

        >>> import polars as pl
        >>> schema = PublicSchema(FrameSchema("y", numeric=("age",)), (Column(18, 90, 40, 15),))
        >>> schema.fit(pl.DataFrame({"age": [17, 45, None], "y": [0, 1, 1]})).lines
        ["Column 'age': 1 value outside 18 to 90.", "Column 'age': 1 missing value; the schema expects none."]
        """
        dataset, misfit = self.frame.read(frame, name)
        if not len(dataset):
            raise GlocalfairError("No row of the table fits the schema: labels are missing or groups unknown.")
        lines = self.lines(misfit)
        for column, values, label in zip(self.columns, dataset.numeric.T, self.frame.numeric, strict=True):
            outside = int(((values < column.low) | (values > column.high)).sum())
            if outside:
                lines.append(f"Column '{label}': {_values(outside)} outside {column.low:g} to {column.high:g}.")
            absent = int(np.isnan(values).sum())
            if absent and not column.missing:
                lines.append(f"Column '{label}': {_values(absent, 'missing ')}; the schema expects none.")
        return Fit(dataset, lines)

    def encoder(self) -> Encoder:
        """Return the encoder by public centre and scale."""
        return Encoder(
            numeric=self.frame.numeric,
            mean=tuple(c.centre for c in self.columns),
            std=tuple(c.scale for c in self.columns),
            indicator=tuple(c.missing for c in self.columns),
            categories=self.frame.categorical,
        )

    def totals(self, dataset: Dataset, rows: Ints) -> Floats:
        """Return count, sum and sum of squares of each standardised numeric column ``[columns, 3]``."""
        encoder = self.encoder()
        values = dataset.numeric[rows].astype(np.float64)
        z = (values - encoder.mean) / np.where(np.array(encoder.std) > 0, encoder.std, 1.0)
        present = ~np.isnan(z)
        z = np.where(present, z, 0.0)
        return np.stack([present.sum(0).astype(float), z.sum(0), (z**2).sum(0)], axis=1)

    def standardised(self, totals: Iterable[Floats]) -> Encoder:
        """Return the encoder by the federation's mean and standard deviation, from the sum of all sites' totals."""
        encoder = self.encoder()
        count, total, squares = np.sum(list(totals), axis=0).T
        mean = total / np.maximum(count, 1)
        std = np.sqrt(np.maximum(squares / np.maximum(count, 1) - mean**2, 0.0))
        scale = np.where(np.array(encoder.std) > 0, encoder.std, 1.0)
        centre = np.array(encoder.mean) + scale * mean
        # Below rounding it is a constant column.
        spread = np.where(std > 1e-9, std * scale, 0.0)
        return Encoder(
            encoder.numeric, tuple(centre.tolist()), tuple(spread.tolist()), encoder.indicator, encoder.categories
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, fit for JSON."""
        columns = dict(zip(self.frame.numeric, map(vars, self.columns), strict=True))
        pictures = {} if self.pictures is None else {"pictures": vars(self.pictures)}
        return {"glocalfair-schema": FORMAT, **self.frame.to_dict(), "columns": columns, **pictures}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PublicSchema:
        """Undo `to_dict`."""
        if not isinstance(values, Mapping) or values.get("glocalfair-schema") != FORMAT:
            raise GlocalfairError("This is no published schema: make one with 'glocalfair flower schema'.")
        frame = FrameSchema.from_dict(values)
        columns = values.get("columns")
        if not isinstance(columns, Mapping) or set(columns) != set(frame.numeric):
            raise invalid("columns", f"a table for each of {list(frame.numeric)}", columns)
        pictures = Pictures.from_dict(values["pictures"]) if "pictures" in values else None
        if pictures is not None and frame.inputs:
            raise invalid("pictures", "the only input", list(frame.inputs))
        return cls(frame, tuple(Column.from_dict(name, columns[name]) for name in frame.numeric), pictures)

    @classmethod
    def load(cls, path: Path) -> PublicSchema:
        """Read a schema file."""
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise GlocalfairError(f"Cannot read the schema '{path}': {error}.") from error
        return cls.from_dict(values)

    @classmethod
    def of_table(cls, options: FrameOptions) -> tuple[PublicSchema, Sequence[str]]:
        """Make a schema of one table, and return what to look at. Ranges and moments are rounded: they get public."""
        from glocalfair.data.frame import prepare_file

        dataset, frame, profile = prepare_file(options)
        columns = []
        for values in dataset.numeric.T.astype(np.float64):
            present = values[~np.isnan(values)]
            low, high = _rounded(present.min(), 2, math.floor), _rounded(present.max(), 2, math.ceil)
            centre, scale = _rounded(present.mean(), 3), _rounded(present.std(), 3)
            columns.append(Column(low, high, centre, scale, len(present) < len(values)))
        return cls(replace(frame, client=None), tuple(columns)), profile.warnings


def _values(count: int, kind: str = "") -> str:
    return f"{count:,} {kind}value{'s' * (count > 1)}"


def _rounded(value: float, digits: int, way: Any = round) -> float:
    """Keep so many significant digits.

    >>> _rounded(38.64, 3), _rounded(17, 2, math.floor), _rounded(99999, 2, math.ceil)
    (38.6, 17.0, 100000.0)
    """
    if value == 0:
        return 0.0
    exponent = math.floor(math.log10(abs(value))) - digits + 1
    # A negative power as a divisor: 386 / 10 is 38.6, 386 * 0.1 is not.
    steps = way(value * 10.0**-exponent)
    return float(steps * 10**exponent) if exponent >= 0 else float(steps / 10**-exponent)
