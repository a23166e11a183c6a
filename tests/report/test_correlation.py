"""Rank correlation against scipy."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from glocalfair.report.html.correlation import spearman

# Few distinct values, so that there are ties.
PAIRS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=40)


@given(PAIRS)
def test_equals_scipy(pairs: list[tuple[int, int]]) -> None:
    x, y = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    found = spearman(x, y)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert math.isnan(found.rho)
        return
    assert found.rho == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    if not math.isnan(found.low):
        assert -1 <= found.low <= found.rho <= found.high <= 1


def test_the_interval_by_hand() -> None:
    x = list(range(12))
    found = spearman(x, [*x[1:], 0])
    half = 1.959964 * math.sqrt((1 + found.rho**2 / 2) / 9)
    assert math.atanh(found.high) - math.atanh(found.rho) == pytest.approx(half, abs=1e-5)


def test_too_few_pairs_have_no_interval() -> None:
    assert math.isnan(spearman([1, 2, 3], [1, 3, 2]).low)
    assert math.isnan(spearman([1], [1]).rho)
    assert math.isnan(spearman([], []).rho)
