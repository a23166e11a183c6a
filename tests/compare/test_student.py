"""The t interval against scipy and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from glocalfair.compare.student import paired, t_quantile


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 9, 10, 29, 100, 101])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_quantile_is_scipys(freedom: int, level: float) -> None:
    assert t_quantile(freedom, level) == pytest.approx(stats.t.ppf((1 + level) / 2, freedom), rel=1e-9)


def test_paired_is_scipys() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(2, 7))
    mean, half, pairs = paired(one, two)
    expected = stats.ttest_rel(one, two).confidence_interval(0.95)
    assert (mean - half, mean + half, pairs) == pytest.approx((expected.low, expected.high, 7))


def test_paired_by_hand_and_without_pairs() -> None:
    # Differences 1, 2, 3: mean 2, s = 1, t(2) = 4.3027.
    assert paired(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx((2, 4.30265 / math.sqrt(3), 3))
    one = paired(np.array([2.0, math.nan]), np.array([1.0, 2.0]))
    assert one[0] == 1 and math.isnan(one[1]) and one[2] == 1
    assert math.isnan(paired(np.array([math.nan]), np.array([1.0]))[0])
