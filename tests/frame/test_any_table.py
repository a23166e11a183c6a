"""Tables nobody has seen: each is either understood, encoded without a gap, or refused in one line."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from glocalfair.data import PartitionSpec, SplitSpec, build
from glocalfair.data.frame import FrameOptions, FrameSchema, prepare, prepare_file
from glocalfair.errors import GlocalfairError

CELLS: list[st.SearchStrategy[Any]] = [
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 3),
    st.floats(width=64),
    st.booleans(),
    st.text(max_size=6),
    st.sampled_from(["yes", "no", "?", "NA", "", " yes"]),
    st.sampled_from(["1", "2.5", "1e400", "nan", "x"]),
    st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)),
    st.binary(max_size=3),
    st.lists(st.integers(0, 2), max_size=2),
]


@st.composite
def frames(draw: st.DrawFn) -> pl.DataFrame:
    rows = draw(st.integers(1, 40))
    names = draw(st.lists(st.text(max_size=8), min_size=2, max_size=5, unique=True))
    columns = {}
    for name in names:
        cell = draw(st.sampled_from(CELLS))
        values = draw(st.lists(st.none() | cell, min_size=rows, max_size=rows))
        columns[name] = pl.Series(name, values, strict=False)
    return pl.DataFrame(columns)


def survives(frame: pl.DataFrame, options: FrameOptions) -> None:
    try:
        found = prepare(frame, options)
        federation, _ = build(found.dataset, PartitionSpec("iid", clients=1, min_rows=0), SplitSpec(), seed=0)
    except GlocalfairError as error:
        assert str(error)
        return
    assert np.isfinite(federation.x).all()
    found.profile.render(80)
    assert FrameSchema.from_dict(found.schema.to_dict()) == found.schema
    again, misfit = found.schema.read_inputs(frame)
    assert found.profile.dropped or not misfit.unknown
    assert len(again) == frame.height


@settings(max_examples=150, deadline=None)
@given(frame=frames(), data=st.data())
def test_random_frames(frame: pl.DataFrame, data: st.DataObject) -> None:
    names = st.sampled_from(frame.columns)
    sensitive = data.draw(st.lists(names.flatmap(lambda n: st.sampled_from([n, f"{n}:<2", f"{n}:0,1"])), max_size=2))
    options: dict[str, Any] = {
        "label": data.draw(names),
        "positive": data.draw(st.none() | st.sampled_from(["yes", 1, True, 2.5])),
        "sensitive": tuple(sensitive),
        "client": data.draw(st.none() | names),
        "missing_sensitive": data.draw(st.sampled_from(["group", "drop", "error"])),
        "leaks": data.draw(st.sampled_from(["warn", "drop", "error"])),
        "max_categories": data.draw(st.integers(2, 5)),
    }
    try:
        chosen = FrameOptions(**options)
    except GlocalfairError:
        return
    survives(frame, chosen)


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=200) | st.text(alphabet="ab,;\n\"'1.?é\t ", max_size=200).map(str.encode))
def test_random_csv(tmp_path_factory: Any, content: bytes) -> None:
    path: Path = tmp_path_factory.mktemp("csv") / "any.csv"
    path.write_bytes(b"a,b\n" + content)
    try:
        prepare_file(FrameOptions(path=str(path), label="a", sensitive=("b",)))
    except GlocalfairError as error:
        assert "\n" not in str(error)
