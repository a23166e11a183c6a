"""A line of the log reads as what going through every value first would give."""

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glocalfair.runs import _line, jsonable

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
