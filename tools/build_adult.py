"""Make the Adult table that ships with the package from the original UCI files.

    python tools/build_adult.py FOLDER_WITH_adult.data_AND_adult.test

Writes ``src/glocalfair/data/files/adult.parquet``. Rows keep their order:
first ``adult.data``, then ``adult.test``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

COLUMNS = {
    "age": pl.Int16,
    "workclass": pl.String,
    "fnlwgt": pl.Int32,
    "education": pl.String,
    "education-num": pl.Int16,
    "marital-status": pl.String,
    "occupation": pl.String,
    "relationship": pl.String,
    "race": pl.String,
    "sex": pl.String,
    "capital-gain": pl.Int32,
    "capital-loss": pl.Int32,
    "hours-per-week": pl.Int16,
    "native-country": pl.String,
    "income": pl.String,
}
TARGET = Path(__file__).parents[1] / "src" / "glocalfair" / "data" / "files" / "adult.parquet"


def parse(text: str, part: str) -> pl.DataFrame:
    """Read one original file.

    Comment lines are known by their ``|`` and not by their place, because only some copies of ``adult.test``
    begin with one.
    """
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("|"):
            continue
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != len(COLUMNS):
            raise ValueError(f"{part}, line {number}: expected {len(COLUMNS)} fields, got {len(fields)}")
        rows.append([None if field == "?" else field for field in fields])
    frame = pl.DataFrame(rows, schema=dict.fromkeys(COLUMNS, pl.String), orient="row")
    return frame.with_columns(pl.col("income").str.strip_suffix("."), part=pl.lit(part)).cast(COLUMNS)  # type: ignore[arg-type]


def build(folder: Path) -> pl.DataFrame:
    """Return all 48,842 rows."""
    parts = {"train": folder / "adult.data", "test": folder / "adult.test"}
    return pl.concat([parse(path.read_text("ascii"), part) for part, path in parts.items()])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    table = build(Path(sys.argv[1]))
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    table.write_parquet(TARGET, compression="zstd", compression_level=19, statistics=False)
    print(f"{TARGET}: {table.height:,} rows, {TARGET.stat().st_size / 1e6:.2f} MB")
