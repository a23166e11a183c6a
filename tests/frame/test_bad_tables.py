"""Whatever is wrong with a table or with what is said about it: one line that names the column and the way out."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from glocalfair.data.frame import FrameOptions, FrameSchema, as_polars, prepare_file, read
from glocalfair.errors import GlocalfairError

from .people import people, understood

SAID: dict[str, tuple[dict[str, Any], str]] = {
    "label mistyped": ({"label": "aproved"}, r"Unknown label column 'aproved'. Did you mean 'approved'\?"),
    "sensitive mistyped": ({"sensitive": ("sexx",)}, r"Unknown sensitive column 'sexx'. Did you mean 'sex'\?"),
    "binned mistyped": ({"sensitive": ("agee:<4",)}, r"Unknown sensitive column 'agee'. Did you mean 'age'\?"),
    "client mistyped": ({"client": "hospitl"}, r"Unknown client column 'hospitl'. Did you mean 'hospital'\?"),
    "drop mistyped": ({"drop": ("nam",)}, r"Unknown column in 'drop' 'nam'. Did you mean 'name'\?"),
    "keep mistyped": ({"keep": ("nam",)}, r"Unknown column in 'keep' 'nam'. Did you mean 'name'\?"),
    "positive mistyped": ({"positive": "yess"}, r"Unknown value of the label 'approved' 'yess'. Did you mean 'yes'\?"),
    "many classes": ({"label": "race"}, r"Binary classification only for now: the label 'race' has 3 values"),
    "number as label": ({"label": "age"}, r"Binary classification only for now: the label 'age' has \d+ values"),
    "one class": ({"label": "country"}, r"The label 'country' has one value only, 'X'"),
    "not obvious": ({"label": "sex"}, r"Which value of the label 'sex' is positive\? It has 'Female' and 'Male'"),
    "label is client": ({"client": "approved"}, r"cannot be both the label and the client"),
    "label is sensitive": ({"sensitive": ("approved",)}, r"cannot be both the label and sensitive"),
    "number without bins": ({"sensitive": ("age",)}, r"'age' is a number with \d+ values. Cut it .* 'age:<\d+'"),
    "sensitive twice": ({"sensitive": ("age:<3", "age:<4")}, r"'sensitive' must be columns, each once"),
    "too many groups": ({"sensitive": ("name",)}, r"'name' has 400 values; at most 50"),
    "one group": ({"sensitive": ("country",)}, r"'country' has one group only, 'X'"),
    "one bin": ({"sensitive": ("age:<5",)}, r"'age' has one group only, '>=5'"),
    "words in bins": ({"sensitive": ("race:<40",)}, r"'race' has no numbers to cut into bins"),
    "no bins": ({"sensitive": ("age:",)}, r"'sensitive' must be a column with bins"),
    "bins of words": ({"sensitive": ("age:old",)}, r"'sensitive' must be a column with bins. Got 'age:old'"),
    "bins in disorder": ({"sensitive": ("age:40,25",)}, r"bins in ascending order"),
    "bins without end": ({"sensitive": ("age:<inf",)}, r"bins in ascending order"),
    "sign and list": ({"sensitive": ("age:<25,40",)}, r"bins in ascending order"),
    "rows as clients": ({"client": "name"}, r"'name' has 400 values in 400 rows: it names rows, not organisations"),
    "dates refused": ({"dates": "error"}, r"'born' is a date: turn it into a number"),
    "nothing left": (
        {"drop": ("age", "sex", "race", "income", "job", "letter", "hospital")},
        r"No input column is left",
    ),
    "missing label": ({"label": "job", "missing_label": "error"}, r"'job' is missing in \d+ of 400 rows \(rows \d+"),
    "missing group": ({"sensitive": ("job",), "missing_sensitive": "error"}, r"'job' is missing in \d+ of 400"),
    "no label": ({"label": ""}, r"Which column is the label\? Give --label"),
    "few categories": ({"max_categories": 1}, r"'max_categories' must be a whole number of at least 2. Got 1"),
    "long separator": ({"separator": "--"}, r"'separator' must be one character"),
}


@pytest.mark.parametrize("case", SAID)
def test_what_is_said_about_a_table(case: str) -> None:
    options, expected = SAID[case]
    with pytest.raises(GlocalfairError, match=expected) as caught:
        understood(people(), **options)
    assert "\n" not in str(caught.value)


FILES: dict[str, tuple[str, bytes | None, str]] = {
    "not there": ("nothing.csv", None, r"Cannot read '.*nothing.csv': no such file"),
    "another kind": ("table.xlsx", b"PK", r"must be a .csv, .csv.gz or .parquet file"),
    "empty": ("empty.csv", b"", r"Cannot read '.*empty.csv': .*empty"),
    "header alone": ("header.csv", b"a,approved\n", r"'.*header.csv' has no rows"),
    "ragged": ("ragged.csv", b"a,approved\n1,yes\n2,no,3\n", r"a row has more fields than the header"),
    "cut off": ("cut.csv.gz", gzip.compress(b"a,approved\n1,yes\n" * 99)[:30], r"end of file"),
    "not text": ("latin.csv", "a,approved\ncafé,yes\n".encode("latin-1") * 9, r"not UTF-8 text"),
    "no parquet": ("table.parquet", b"PAR1 not really", r"Cannot read '.*table.parquet'"),
    "binary": ("binary.csv", bytes(range(256)), r"Cannot read|Unknown label column"),
    "one column": ("one.csv", b"approved\nyes\nno\n", r"No input column is left"),
    "no such label": ("other.csv", b"a,b\n1,2\n", r"Unknown label column 'approved'"),
    "labels all missing": ("none.csv", b"a,approved\n1,\n2,NA\n", r"No row is left"),
}


@pytest.mark.parametrize("case", FILES)
def test_files(tmp_path: Path, case: str) -> None:
    name, content, expected = FILES[case]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(GlocalfairError, match=expected) as caught:
        prepare_file(FrameOptions(path=str(tmp_path / name), label="approved"))
    assert "\n" not in str(caught.value)


def test_a_folder_and_no_path(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(GlocalfairError, match="it is a folder"):
        read(tmp_path / "folder.csv")
    with pytest.raises(GlocalfairError, match=r"Which file\? Give --data"):
        prepare_file(FrameOptions(label="approved"))


@pytest.mark.parametrize("frame", [3, [1, 2], {"a": [1, 2], "b": [1]}])
def test_things_that_are_no_frame(frame: object) -> None:
    with pytest.raises(GlocalfairError, match=r"polars or pandas frame|Cannot read the frame"):
        as_polars(frame)


@pytest.mark.parametrize("values", [{}, {"label": 1}, [], {"sensitive": [3]}, "schema"])
def test_things_that_are_no_schema(values: Any) -> None:
    with pytest.raises(GlocalfairError, match="This is no schema"):
        FrameSchema.from_dict(values)


def test_a_label_that_the_schema_does_not_know() -> None:
    schema = understood(people()).schema
    with pytest.raises(GlocalfairError, match="'approved' is 'perhaps' somewhere"):
        schema.read_label(people().with_columns(approved=pl.lit("perhaps")))


def test_columns_that_hold_lists_are_left_out() -> None:
    frame = people().with_columns(visits=pl.concat_list("age", "age"))
    assert "visits" not in understood(frame).schema.inputs
    with pytest.raises(GlocalfairError, match="'visits' holds List"):
        understood(frame, sensitive=("visits",))
