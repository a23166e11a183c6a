"""One way to read a column as text and as numbers, for training and for prediction alike."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from glocalfair.errors import GlocalfairError

if TYPE_CHECKING:
    import polars as pl

MISSING, OTHER, UNKNOWN = "(missing)", "(other)", "(unknown)"


def readable(column: pl.Series) -> bool:
    """Whether a column holds numbers, words, truth values or times: something with one value in a cell."""
    import polars as pl

    return not column.dtype.is_nested() and column.dtype not in (pl.Binary, pl.Object)


def text(column: pl.Series, missing_values: Collection[str]) -> pl.Series:
    """Return a column as stripped strings; null is missing. A whole number reads the same from int and float.

    >>> import polars as pl
    >>> text(pl.Series([1.0, 2.5, None]), ()).to_list(), text(pl.Series([" a", "?"]), ["?"]).to_list()
    (['1', '2.5', None], ['a', None])
    """
    import polars as pl

    if column.dtype.is_float():
        whole = column.is_finite() & (column == column.floor()) & (column.abs() < 2**53)
        integers = column.set(~whole.fill_null(False), None).cast(pl.Int64).cast(pl.String)
        return integers.zip_with(whole.fill_null(False), column.fill_nan(None).cast(pl.String))
    if column.dtype == pl.Boolean:
        return column.cast(pl.String)
    if not readable(column):
        raise GlocalfairError(
            f"Column '{column.name}' holds lists or records, not single values. Leave it out (drop), or split it first."
        )
    stripped = column.cast(pl.String).str.strip_chars()
    if column.dtype.is_numeric() or not missing_values:
        return stripped
    return stripped.set(stripped.is_in(list(missing_values)).fill_null(False), None)


def numbers(column: pl.Series, missing_values: Collection[str]) -> tuple[npt.NDArray[np.float32], int]:
    """Return a column as float32 with NaN for missing, and how many values were there but are no finite number."""
    import polars as pl

    if column.dtype == pl.Boolean or column.dtype.is_numeric():
        # A missing number may come as null or as NaN; neither is a bad one.
        column = column.cast(pl.Float64).fill_nan(None)
        present = column.len() - column.null_count()
    else:
        nothing = pl.Series([None] * column.len(), dtype=pl.String)
        strings = text(column, missing_values) if readable(column) else nothing
        present = strings.len() - strings.null_count()
        column = strings.cast(pl.Float64, strict=False)
    with np.errstate(over="ignore"):
        out = column.fill_null(float("nan")).to_numpy().astype(np.float32)
    out[~np.isfinite(out)] = np.nan
    return out, int(present - np.isfinite(out).sum())


def codes(column: pl.Series, values: Sequence[str]) -> npt.NDArray[np.int32]:
    """Return the position of each string in `values`; −1 for null and for what is not among them.

    >>> import polars as pl
    >>> codes(pl.Series(["b", None, "a", "c"]), ["a", "b"]).tolist()
    [1, -1, 0, -1]
    """
    import polars as pl

    found = column.replace_strict(list(values), range(len(values)), default=None, return_dtype=pl.Int32)
    result: npt.NDArray[np.int32] = found.fill_null(-1).to_numpy()
    return result


def row_list(mask: npt.NDArray[np.bool_], limit: int = 5) -> str:
    """Name the rows of a mask, counted from 1.

    >>> row_list(np.array([False, True, True]))
    'rows 2 and 3'
    """
    rows: list[Any] = (np.flatnonzero(mask) + 1).tolist()
    if len(rows) > limit:
        return f"rows {', '.join(map(str, rows[:limit]))} and {len(rows) - limit:,} more"
    if len(rows) == 1:
        return f"row {rows[0]}"
    return f"rows {', '.join(map(str, rows[:-1]))} and {rows[-1]}"
