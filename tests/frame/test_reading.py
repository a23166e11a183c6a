"""CSV, Parquet, polars and pandas give the same data; large tables stay columnar."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from glocalfair.data.frame import FrameOptions, as_polars, prepare, prepare_file, read

from .people import people


def same(one: object, other: object) -> None:
    for frame in (one, other):
        assert isinstance(frame, pl.DataFrame)
    options = FrameOptions(label="approved", sensitive=("sex", "age:<40"), client="hospital")
    a, b = prepare(one, options), prepare(other, options)  # type: ignore[arg-type]
    assert a.schema == b.schema and a.profile.warnings == b.profile.warnings
    for name in ("numeric", "categorical", "label", "groups", "owner"):
        np.testing.assert_array_equal(getattr(a.dataset, name), getattr(b.dataset, name))


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_csv(tmp_path: Path, separator: str) -> None:
    people().write_csv(tmp_path / "people.csv", separator=separator, include_bom=separator == ";")
    same(people(), read(tmp_path / "people.csv"))


@pytest.mark.parametrize("separator", [";", "\t"])
def test_decimal_commas(tmp_path: Path, separator: str) -> None:
    table = people().with_columns(pl.col("income") + 0.25)
    commas = table.with_columns(pl.col("income").cast(pl.String).str.replace(".", ",", literal=True))
    commas.write_csv(tmp_path / "european.csv", separator=separator)
    same(table, read(tmp_path / "european.csv"))


def test_a_lone_point_is_missing(tmp_path: Path) -> None:
    (tmp_path / "sas.csv").write_text("x,sex,approved\n" + "1.5,1,yes\n.,0,no\n2,.,no\n" * 4)
    found = prepare_file(FrameOptions(path=str(tmp_path / "sas.csv"), label="approved", sensitive=("sex",)))
    assert found.dataset.attributes[0].values == ("0", "1", "(missing)")
    assert np.isnan(found.dataset.numeric).sum() == 8 and "x" in found.schema.numeric


def test_packed_csv(tmp_path: Path) -> None:
    (tmp_path / "people.csv.gz").write_bytes(gzip.compress(people().write_csv(separator=";").encode()))
    same(people(), read(tmp_path / "people.csv.gz"))


def test_dropping_a_name_drops_every_column_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "twice.csv").write_text("score,age,score,approved\n" + "1,30,1,no\n2,40,2,yes\n" * 4)
    options = FrameOptions(path=str(tmp_path / "twice.csv"), label="approved", drop=("score",))
    assert prepare_file(options).schema.inputs == ("age",)
    both = prepare_file(FrameOptions(path=options.path, label="approved"))
    assert both.schema.inputs == ("score", "age")
    assert any("second copies of columns: score_duplicated_0" in line for line in both.profile.warnings)


def test_parquet(tmp_path: Path) -> None:
    people().write_parquet(tmp_path / "people.parquet")
    same(people(), read(tmp_path / "people.parquet"))


def test_pandas() -> None:
    import pandas as pd

    columns = people().to_dict(as_series=False)
    same(people(), as_polars(pd.DataFrame(columns)))
    typed = pd.DataFrame(columns).astype({"age": "Int64", "sex": "category", "income": "Float64"})
    same(people(), as_polars(typed))
    dated = as_polars(pd.DataFrame({"day": pd.to_datetime(["2020-01-02", None]), "flag": [True, None]}))
    assert dated.dtypes == [pl.Datetime("us"), pl.Boolean]


def test_a_mapping_and_a_lazy_frame() -> None:
    same(people(), as_polars(people().to_dict(as_series=False)))
    same(people(), as_polars(people().lazy()))


def test_a_late_word_in_a_column_of_numbers(tmp_path: Path) -> None:
    lines = [f"{i % 7},{'yes' if i % 3 else 'no'}" for i in range(12_000)]
    (tmp_path / "late.csv").write_text("\n".join(["x,approved", *lines, "unknown,yes"]))
    found = prepare_file(FrameOptions(path=str(tmp_path / "late.csv"), label="approved"))
    assert found.schema.numeric == ("x",)
    assert any("'x': 1 values are no finite numbers" in line for line in found.profile.warnings)


def test_dropped_columns_are_not_read(tmp_path: Path) -> None:
    people().write_csv(tmp_path / "people.csv")
    assert read(tmp_path / "people.csv", drop=["name"]).columns == [c for c in people().columns if c != "name"]


def test_the_same_name_twice(tmp_path: Path) -> None:
    (tmp_path / "twice.csv").write_text("x,x,approved\n" + "1,1,yes\n2,2,no\n3,3,no\n" * 9)
    found = prepare_file(FrameOptions(path=str(tmp_path / "twice.csv"), label="approved"))
    assert found.schema.numeric == ("x",)


def test_half_a_million_rows(tmp_path: Path) -> None:
    rows = 500_000
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "a": rng.normal(size=rows),
            "b": rng.integers(0, 9, rows),
            "c": rng.choice(["u", "v", "w"], rows),
            "sex": rng.choice(["F", "M"], rows),
            "approved": rng.integers(0, 2, rows),
        }
    )
    frame.write_parquet(tmp_path / "large.parquet")
    found = prepare_file(FrameOptions(path=str(tmp_path / "large.parquet"), label="approved", sensitive=("sex",)))
    assert found.dataset.numeric.dtype == np.float32 and found.dataset.categorical.dtype == np.int32
    assert found.profile.memory[0] == rows * 7 * 4
