"""A line of the log reads as what going through every value first would give."""

import json
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glocalfair.runs import _line, jsonable


@dataclass
class Point:
    x: int


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.floats().map(np.float64),
    st.floats(width=32).map(np.float32),
    st.integers(0, 9).map(np.int64),
    st.lists(st.floats(), max_size=3).map(np.array),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner), st.tuples(inner, inner), st.dictionaries(st.text(), inner)),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES))
def test_a_line_is_the_same_by_either_way(record: dict[str, Any]) -> None:
    line = _line(record)
    assert line.endswith(b"\n") and b"\n" not in line[:-1]
    # By their texts: of the numbers, too, nothing may be lost, and −0.0 and 0, or 1 and True, are equal in Python.
    assert repr(json.loads(line)) == repr(jsonable(record))


@pytest.mark.parametrize("value", [date(2026, 1, 1), Point(1), object()])
def test_what_json_has_no_form_for_is_an_error(value: Any) -> None:
    with pytest.raises(TypeError):
        _line({"value": value})


def test_keys_need_not_be_text() -> None:
    assert json.loads(_line({1: {None: 2**80}})) == {"1": {"None": 2**80}}
