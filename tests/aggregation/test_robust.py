"""Clipping, trimmed mean and median: against scipy and numpy, and the promises they make."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from glocalfair.aggregation.average import weighted_average
from glocalfair.aggregation.robust import clip, combine, trimmed_mean
from glocalfair.types import ClientUpdate, Combining, Floats

numbers = st.floats(-1e6, 1e6)
tables = st.tuples(st.integers(1, 9), st.integers(1, 4)).flatmap(lambda shape: arrays(float, shape, elements=numbers))


@st.composite
def weighted(draw: st.DrawFn) -> tuple[Floats, Floats]:
    values = draw(tables)
    mass = draw(arrays(float, len(values), elements=st.floats(0.01, 1)))
    return values, mass / mass.sum()


@given(tables)
def test_equal_weights_give_the_usual_median(values: Floats) -> None:
    share = np.full(len(values), 1 / len(values))
    np.testing.assert_allclose(trimmed_mean(values, share, 0.5), np.median(values, axis=0), rtol=1e-12, atol=1e-9)


@given(tables, st.integers(0, 4))
def test_equal_weights_give_the_usual_trimmed_mean(values: Floats, cut: int) -> None:
    size = len(values)
    if 2 * cut >= size:
        return
    share = np.full(size, 1 / size)
    # A hair more, so that scipy's floor of the product is `cut`.
    expected = stats.trim_mean(values, cut / size + 1e-9, axis=0)
    np.testing.assert_allclose(trimmed_mean(values, share, cut / size), expected, rtol=1e-9, atol=1e-6)


def test_weights_count_like_copies() -> None:
    values = np.array([[1.0], [2.0], [5.0], [9.0]])
    copies = np.repeat(values, [3, 1, 4, 2], axis=0)
    for trim in (0.0, 0.1, 0.2, 0.4, 0.5):
        even = trimmed_mean(copies, np.full(10, 0.1), trim)
        np.testing.assert_allclose(trimmed_mean(values, np.array([0.3, 0.1, 0.4, 0.2]), trim), even, atol=1e-12)


@given(weighted(), st.sampled_from([0.0, 0.1, 0.3, 0.5]), st.randoms())
def test_order_does_not_matter(table: tuple[Floats, Floats], trim: float, random: object) -> None:
    values, share = table
    order = np.array(random.sample(range(len(values)), len(values)))  # type: ignore[attr-defined]
    one, two = trimmed_mean(values, share, trim), trimmed_mean(values[order], share[order], trim)
    # Rounding of the cumulated weights depends on it when values are equal, or when ½ is nearly met.
    np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-6 * max(1.0, np.abs(values).max()))


@given(weighted())
def test_nothing_trimmed_is_the_mean(table: tuple[Floats, Floats]) -> None:
    values, share = table
    np.testing.assert_allclose(trimmed_mean(values, share, 0.0), share @ values, rtol=1e-9, atol=1e-6)


@given(weighted(), st.sampled_from([0.1, 0.25, 0.4, 0.5]), st.sampled_from([-1e300, 1e300, 7.0]))
def test_few_hostile_clients_cannot_leave_the_honest_range(
    table: tuple[Floats, Floats], trim: float, lie: float
) -> None:
    values, share = table
    honest = np.cumsum(share) >= trim - 1e-9
    hostile = values.copy()
    hostile[~honest] = lie
    result = trimmed_mean(hostile, share, trim)
    slack = 1e-9 * (1 + np.abs(values).max())
    assert (result >= values[honest].min(axis=0) - slack).all() and (result <= values[honest].max(axis=0) + slack).all()


@given(weighted(), st.floats(0.1, 1))
def test_what_is_missing_to_one_stays_on_the_old_model(table: tuple[Floats, Floats], total: float) -> None:
    values, share = table
    rest = np.linspace(-1, 1, values.shape[1])
    for settings, trim in ((Combining("median"), 0.5), (Combining("trimmed-mean", 0.2), 0.2)):
        expected = total * trimmed_mean(values, share, trim) + (1 - total) * rest
        np.testing.assert_allclose(combine(list(values), total * share, rest, settings), expected, atol=1e-6)
    np.testing.assert_array_equal(
        combine(list(values), total * share, rest, Combining()), weighted_average(list(values), total * share, rest)
    )


def test_large_models_go_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    from glocalfair.aggregation import robust

    values, share = np.random.default_rng(0).standard_normal((5, 1000)), np.full(5, 0.2)
    whole = combine(list(values), share, np.zeros(1000), Combining("median"))
    monkeypatch.setattr(robust, "_CHUNK", 7)
    np.testing.assert_array_equal(combine(list(values), share, np.zeros(1000), Combining("median")), whole)


def steps(*lengths: float) -> list[ClientUpdate]:
    return [ClientUpdate(f"c{i}", np.array([1.0 + length, 2.0]), 1) for i, length in enumerate(lengths)]


def test_long_steps_are_shortened() -> None:
    old = np.array([1.0, 2.0])
    kept, told = clip(steps(1.0, 2.0, 100.0), old, Combining(clip=1.5))
    assert [float(u.weights[0] - 1) for u in kept] == [1.0, 2.0, 3.0] and told == {"c2": 0.03}
    kept, told = clip(steps(1.0, 2.0, 1e100), old, Combining(clip=0.5, clip_by="absolute"))
    np.testing.assert_allclose([u.weights[0] - 1 for u in kept], [0.5, 0.5, 0.5])
    updates = steps(1.0, 5.0)
    assert clip(updates, old, Combining()) == (updates, {})
