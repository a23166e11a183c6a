"""A CSV or Parquet file, or a frame in memory, as a polars frame."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from glocalfair.data.frame.options import MISSING_VALUES
from glocalfair.errors import GlocalfairError, unknown

if TYPE_CHECKING:
    import polars as pl

_CSV, _PARQUET, _PACKED = (".csv", ".tsv", ".txt"), (".parquet", ".pq"), ".gz"
_GUESS_ROWS = 10_000
_COMMA_ROWS = 1_000
_COMMA, _POINT = re.compile(r"[+-]?\d*,\d+"), re.compile(r"[+-]?\d*\.\d+")


def read(
    path: str | Path,
    separator: str | None = None,
    missing_values: Sequence[str] = MISSING_VALUES,
    drop: Collection[str] = (),
) -> pl.DataFrame:
    """Read a table; columns in `drop` are never loaded.

    Parameters
    ----------
    path
        A ``.csv``, ``.tsv`` or ``.txt`` file in UTF-8, as it is or packed (``.csv.gz``), or a ``.parquet`` file.
    separator
        Between the fields of a CSV file; found by itself if None.
    missing_values
        Texts that stand for a missing value.
    drop
        Names of columns to leave out; each must exist.
    """
    import polars as pl

    path = Path(path)
    kind = _unpacked(path).suffix.lower()
    if kind not in _CSV and path.suffix.lower() not in _PARQUET:
        raise GlocalfairError(f"Cannot read '{path}': data must be a .csv, .csv.gz or .parquet file.")
    if not path.is_file():
        raise GlocalfairError(f"Cannot read '{path}': {'it is a folder' if path.exists() else 'no such file'}.")
    try:
        if kind in _PARQUET:
            frame = _collect(pl.scan_parquet(path), drop)
        else:
            frame = _csv(path, separator or _separator(path), missing_values, drop)
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise GlocalfairError(f"Cannot read '{path}': {_reason(error)}") from error
    if not frame.height:
        raise GlocalfairError(f"'{path}' has no rows.")
    return frame


def table_name(path: str | Path) -> str:
    """Return the name of a file without what says how it is written.

    >>> table_name("data/people.csv.gz"), table_name("people.parquet")
    ('people', 'people')
    """
    return _unpacked(Path(path)).stem


def _unpacked(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() == _PACKED else path


def as_polars(frame: Any) -> pl.DataFrame:
    """Take a polars frame, a pandas frame, a mapping of columns, or the path of a file.

    >>> as_polars({"age": [31, 45], "sex": ["F", "M"]}).shape
    (2, 2)
    """
    import polars as pl

    if isinstance(frame, pl.DataFrame):
        return frame
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if isinstance(frame, str | Path):
        return read(frame)
    try:
        if isinstance(frame, Mapping):
            return pl.DataFrame(dict(frame), strict=False)
        if hasattr(frame, "columns") and hasattr(frame, "iloc"):
            return _pandas(frame)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise GlocalfairError(f"Cannot read the frame: {_reason(error)}") from error
    raise GlocalfairError(
        "The data must be a polars or pandas frame, a mapping of columns or a path. "
        f"Got {type(frame).__name__} instead."
    )


def _pandas(frame: Any) -> pl.DataFrame:
    """Go column by column, because polars' own way needs pyarrow."""
    import polars as pl

    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise GlocalfairError(f"Two columns of the frame are called '{twice}'.")
    columns = {}
    for position, name in enumerate(names):
        column = frame.iloc[:, position]
        kind = getattr(column.dtype, "kind", "O")
        if kind in "iufb" and not column.isna().any():
            columns[name] = pl.Series(name, column.to_numpy(dtype={"b": bool, "f": float}.get(kind, "int64")))
        elif kind in "iuf":
            columns[name] = pl.Series(name, column.to_numpy(dtype=float, na_value=float("nan")), nan_to_null=True)
        elif kind == "M":
            columns[name] = pl.Series(name, column.dt.tz_localize(None).to_numpy(dtype="datetime64[us]"))
        else:
            items = [None if missing else item for item, missing in zip(column, column.isna(), strict=True)]
            plain = all(item is None or isinstance(item, bool) for item in items)
            columns[name] = pl.Series(name, items if plain else [i if i is None else str(i) for i in items])
    return pl.DataFrame(columns)


def _open(path: Path) -> TextIO:
    if path.suffix.lower() == _PACKED:
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")


def _separator(path: Path) -> str:
    """Take the candidate that the first line has most of."""
    with _open(path) as file:
        line = file.readline()
    return max(",;\t|", key=line.count)


def _decimal_comma(path: Path, separator: str) -> bool:
    """Whether numbers are written 0,5, as a spreadsheet does where the separator is not a comma."""
    if separator == ",":
        return False
    with _open(path) as file:
        fields = [field.strip(' "\n') for line in islice(file, 1, _COMMA_ROWS) for field in line.split(separator)]
    return sum(map(bool, map(_COMMA.fullmatch, fields))) > sum(map(bool, map(_POINT.fullmatch, fields)))


def _csv(path: Path, separator: str, missing_values: Sequence[str], drop: Collection[str]) -> pl.DataFrame:
    import polars as pl

    comma = _decimal_comma(path, separator)

    def scan(rows: int | None) -> pl.LazyFrame:
        return pl.scan_csv(
            path,
            separator=separator,
            null_values=[*missing_values],
            infer_schema_length=rows,
            try_parse_dates=False,
            decimal_comma=comma,
        )

    try:
        return _collect(scan(_GUESS_ROWS), drop)
    except pl.exceptions.ComputeError:
        # A later row does not fit the types of the first ones: look at all rows before choosing.
        return _collect(scan(None), drop)


def _collect(lazy: pl.LazyFrame, drop: Collection[str]) -> pl.DataFrame:
    names = lazy.collect_schema().names()
    for name in drop:
        if name not in names:
            raise unknown("column in 'drop'", name, names)
    return lazy.drop([name for name in names if name in drop or original(name) in drop]).collect()


def original(name: str) -> str:
    """Return the name that a column has in the file: polars renames the second of two columns with one name.

    >>> original("score_duplicated_0"), original("score")
    ('score', 'score')
    """
    return name.rsplit("_duplicated_", 1)[0]


def _reason(error: BaseException) -> str:
    if isinstance(error, UnicodeDecodeError) or "utf-8" in str(error).lower():
        return "it is not UTF-8 text. Save it as UTF-8: 'iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW' may do."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}."
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if "more fields" in text:
        return "a row has more fields than the header."
    return text.rstrip(".") + "."
