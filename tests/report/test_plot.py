"""Axes and thinning."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from glocalfair.report.html.plot import axis, rounds_axis, thinned

VALUES = st.lists(st.floats(-1e3, 1e3), max_size=20)


@given(VALUES)
def test_an_axis_shows_its_values_and_a_few_ticks(values: list[float]) -> None:
    found = axis("x", values)
    assert found.low < found.high
    assert all(found.low <= v <= found.high for v in values)
    assert len(found.ticks) <= 8
    assert all(found.low - 1e-6 <= place <= found.high + 1e-6 for place, _ in found.ticks)


def test_an_axis_ignores_what_is_not_finite() -> None:
    found = axis("x", [0.1, math.nan, math.inf, 0.3], low=0.0)
    assert 0 <= found.low < 0.1
    assert 0.3 < found.high < 0.4


@given(st.integers(1, 500))
def test_rounds_begin_at_1_and_ticks_are_rounds(last: int) -> None:
    ticks = [int(text) for _, text in rounds_axis(last).ticks]
    assert ticks[0] == 1
    assert ticks == sorted(set(ticks))
    assert max(ticks) <= max(last, 1)
    assert len(ticks) <= 8


@given(st.integers(0, 1000), st.integers(2, 50))
def test_thinning_keeps_both_ends(number: int, most: int) -> None:
    kept = thinned(number, most)
    assert len(kept) == min(number, most)
    if number:
        assert (kept[0], kept[-1]) == (0, number - 1)
