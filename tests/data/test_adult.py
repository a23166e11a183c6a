"""The shipped table is the original one, row for row."""

import hashlib
import importlib.util
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from glocalfair.data import load
from glocalfair.data.adult import AdultOptions, read_frame
from glocalfair.errors import GlocalfairError

ROOT = Path(__file__).parents[2]
CONTENT = "079bfaa7616253774962c68b4851ebaccd182b717d50632ac4fd986664c2227e"


def content_hash(frame: pl.DataFrame) -> str:
    """Hash names and values, not the bytes of the Parquet file, which change with its writer."""
    lines = ["\x1f".join(frame.columns)]
    lines += ["\x1f".join("\\N" if value is None else str(value) for value in row) for row in frame.iter_rows()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def build_tool():
    spec = importlib.util.spec_from_file_location("build_adult", ROOT / "tools" / "build_adult.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_shipped_table_is_pinned():
    frame = read_frame()
    assert frame.height == 48_842
    assert dict(frame["part"].value_counts().iter_rows()) == {"train": 32_561, "test": 16_281}
    assert dict(frame["income"].value_counts().iter_rows()) == {"<=50K": 37_155, ">50K": 11_687}
    nulls = {name: count for name, count in frame.null_count().row(0, named=True).items() if count}
    assert nulls == {"workclass": 2_799, "occupation": 2_809, "native-country": 857}
    assert frame.drop_nulls().height == 45_222
    assert content_hash(frame) == CONTENT


def test_building_from_the_original_files_gives_the_shipped_table():
    root = os.environ.get("GLOCALFAIR_DATA")
    if not root or not (Path(root) / "adult" / "adult.data").exists():
        pytest.skip("needs GLOCALFAIR_DATA with the original Adult files")
    assert build_tool().build(Path(root) / "adult").equals(read_frame())


@pytest.mark.parametrize("head", ["", "|1x3 Cross validator\n"])
def test_comment_line_may_be_there_or_not(head):
    row = "25, Private, 226802, 11th, 7, Never-married, ?, Own-child, Black, Male, 0, 0, 40, United-States, <=50K.\n"
    frame = build_tool().parse(head + row + "\n", "test")
    assert frame.height == 1
    assert frame.row(0, named=True) | {"income": "<=50K", "occupation": None, "age": 25} == frame.row(0, named=True)


def test_a_broken_line_is_named():
    with pytest.raises(ValueError, match="line 2: expected 15 fields, got 3"):
        build_tool().parse("\n1, 2, 3\n", "train")


def test_groups_agree_with_the_table():
    frame, data = read_frame(), load("adult")
    assert [a.values for a in data.attributes] == [("Female", "Male"), ("Non-White", "White")]
    np.testing.assert_array_equal(data.groups[:, 0], (frame["sex"] == "Male").to_numpy())
    np.testing.assert_array_equal(data.groups[:, 1], (frame["race"] == "White").to_numpy())
    np.testing.assert_array_equal(data.label, (frame["income"] == ">50K").to_numpy())


def test_five_races_with_white_last():
    frame, data = read_frame(), load("adult", race="multi", sensitive=["race"])
    (race,) = data.attributes
    assert race.values[-1] == "White" and len(race.values) == 5
    assert [race.values[code] for code in data.groups[:, 0]] == frame["race"].to_list()


def test_categories_decode_to_the_original_values():
    frame, data = read_frame(), load("adult")
    for j, (name, values) in enumerate(data.categories):
        decoded = pl.Series(name, [values[code] for code in data.categorical[:, j]])
        assert decoded.equals(frame[name].fill_null("(missing)"))


def test_sensitive_columns_leave_the_inputs_on_request():
    with_all = {name for name, _ in load("adult").categories}
    without = {name for name, _ in load("adult", sensitive_as_input=False).categories}
    only_sex = {name for name, _ in load("adult", sensitive=["sex"], sensitive_as_input=False).categories}
    assert with_all - without == {"sex", "race"}
    assert with_all - only_sex == {"sex"}


def test_errors_name_the_way_out():
    with pytest.raises(GlocalfairError, match=r"'gender'.*Known: race, sex"):
        load("adult", sensitive=["gender"])
    with pytest.raises(GlocalfairError, match="Did you mean 'race'"):
        load("adult", sensitive=["rase"])
    with pytest.raises(GlocalfairError, match="each once"):
        AdultOptions(sensitive=("sex", "sex"))
    with pytest.raises(GlocalfairError, match="'race' must be one of 'binary', 'multi'"):
        load("adult", race="five")
