"""A line of the log is what going through every value first would write."""

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
    assert _line(record) == json.dumps(jsonable(record), ensure_ascii=False) + "\n"
