"""What a column is: a number, a category, or something that must not become an input."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from glocalfair.data.frame.values import MISSING, OTHER, numbers, readable, text

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["numeric", "categorical", "date", "identifier", "constant", "copy", "text", "unusable"]

NEARLY = 0.95
"""Share of the values that decides what a column is, where a few of them say something else."""
_FEW = 20
_DATE = r"^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))([ T]\d{1,2}:\d{2}.*)?$"
_ID_NAME = re.compile(r"(^|[_\W])(id|ids|uuid|guid|key|index|rowname|rownames|number|nr|no)$|^$|^unnamed", re.I)
_NOTATION = r"^[^\w\s]?\s*-?\d{1,3}([., ]\d{3})*([.,]\d+)?\s*[%€$£]?$"


@dataclass(frozen=True)
class Inferred:
    """What was found out about one column; `note` says why it is left out or what to look at."""

    name: str
    kind: Kind
    missing: int
    distinct: int
    detail: str = ""
    note: str = ""
    values: tuple[str, ...] = ()

    @property
    def used(self) -> bool:
        """Whether the column becomes an input."""
        return self.kind in ("numeric", "categorical")


def infer(column: pl.Series, missing_values: Collection[str], max_categories: int, keep: bool = False) -> Inferred:
    """Look at one column.

    >>> import polars as pl
    >>> infer(pl.Series("age", [31, 45, None]), (), 100).kind, infer(pl.Series("sex", ["F", "M"]), (), 100).values
    ('numeric', ('F', 'M'))
    """
    import polars as pl

    name, dtype = column.name, column.dtype
    if not readable(column):
        return Inferred(name, "unusable", 0, 0, note=f"holds {dtype}, not numbers or words")
    if dtype.is_temporal():
        return _date(column, column.null_count())
    if dtype.is_numeric():
        return _numeric(column, missing_values, keep)
    strings = text(column, missing_values)
    present = strings.drop_nulls()
    if dtype != pl.Boolean and len(present):
        if present.str.contains(_DATE).mean() >= NEARLY:  # type: ignore[operator]
            return _date(strings, strings.null_count())
        parsed = present.cast(pl.Float64, strict=False)
        codes = present.str.contains(r"^0\d").any()
        if not codes and parsed.is_not_null().mean() >= NEARLY:  # type: ignore[operator]
            return _numeric(strings.alias(name), missing_values, keep)
    return _categorical(strings.alias(name), max_categories, keep)


def _date(column: pl.Series, missing: int) -> Inferred:
    note = "a date says nothing to a model: turn it into a number, such as an age in years or days since an event"
    return Inferred(column.name, "date", missing, column.n_unique(), note=note)


def _numeric(column: pl.Series, missing_values: Collection[str], keep: bool) -> Inferred:
    number, bad = numbers(column, missing_values)
    present = number[~np.isnan(number)]
    distinct = len(np.unique(present))
    missing = len(number) - len(present)
    if distinct < 2 and missing in (0, len(number)):
        return _constant(column.name, missing, f"{present[0]:g}" if len(present) else "")
    if not keep and _is_identifier(column, distinct, len(present)):
        return Inferred(column.name, "identifier", missing, distinct, note="a different number in every row")
    detail = f"{present.min():.4g} to {present.max():.4g}, mean {present.mean(dtype=np.float64):.4g}"
    note = f"{bad:,} values are no finite numbers and count as missing" if bad else ""
    return Inferred(column.name, "numeric", missing, distinct, detail, note)


def _is_identifier(column: pl.Series, distinct: int, present: int) -> bool:
    """Tell row numbers and keys from measurements, which may be all different as well."""
    import polars as pl

    if present < _FEW or distinct < NEARLY * present:
        return False
    whole = column.drop_nulls().cast(pl.Float64, strict=False).drop_nulls()
    if not (whole == whole.floor()).all():
        return False
    low, high = float(whole.min()), float(whole.max())  # type: ignore[arg-type]
    dense = distinct == present and high - low + 1 <= 1.1 * present
    return dense or _ID_NAME.search(column.name) is not None


def _constant(name: str, missing: int, value: str) -> Inferred:
    note = f"'{value}' in every row" if value else "empty in every row"
    return Inferred(name, "constant", missing, 1 if value else 0, note=note)


def _categorical(column: pl.Series, max_categories: int, keep: bool) -> Inferred:
    name, missing = column.name, column.null_count()
    present = column.drop_nulls()
    # By count, then by name, so that equal counts do not depend on the order of the rows.
    counts = present.value_counts(sort=False).sort("count", name or "", descending=[True, False])
    distinct = counts.height
    if distinct < 2 and missing in (0, column.len()):
        return _constant(name, missing, counts[name][0] if distinct else "")
    if not keep and len(present) >= _FEW and distinct >= NEARLY * len(present):
        return Inferred(name, "identifier", missing, distinct, note="a different value in almost every row")
    ordered = counts[name].to_list()
    shares = counts["count"].to_numpy()
    note = ""
    kept = sorted(ordered)
    if distinct > max_categories:
        covered = shares[: max_categories - 1].sum() / len(present)
        # Rare values: a column of 300 codes in a large table is no text.
        if covered < 0.5 and distinct * _FEW > len(present) and not keep:
            note = f"{distinct:,} different texts, most of them rare"
            return Inferred(name, "text", missing, distinct, note=note)
        kept = [*sorted(ordered[: max_categories - 1]), OTHER]
        note = f"{distinct:,} values: the {max_categories - 1} most frequent are kept, the others become {OTHER}"
    elif distinct > _FEW and present.str.contains(_NOTATION).mean() >= NEARLY:  # type: ignore[operator]
        note = "looks like numbers written as text (1.234,5 or 12 %): write them as 1234.5 to use them as numbers"
    values = tuple(dict.fromkeys([*kept, *([MISSING] if missing else [])]))
    shown = ", ".join(f"{value} {count:,}" for value, count in zip(ordered[:3], shares[:3], strict=True))
    more = f" … {distinct} values" if distinct > 3 else ""
    return Inferred(name, "categorical", missing, distinct, shown + more, note, values)
