import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from glocalfair.aggregation.gini import gini, inequalities, inequality, lorenz, sorted_magnitudes

WEIGHTS = arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e3, 1e3, allow_subnormal=False))


def brute_force(weights: np.ndarray) -> float:
    """The paper's double sum, with magnitudes."""
    x = np.abs(weights)
    return 0.0 if x.sum() == 0 else float(np.abs(x[:, None] - x[None, :]).sum() / (2 * len(x) ** 2 * x.mean()))


@given(WEIGHTS)
def test_equals_the_double_sum(weights: np.ndarray) -> None:
    assert gini(sorted_magnitudes(weights)) == pytest.approx(brute_force(weights), abs=1e-12)


@given(WEIGHTS, st.floats(1e-3, 1e3))
def test_does_not_depend_on_scale_or_order(weights: np.ndarray, scale: float) -> None:
    value = gini(sorted_magnitudes(weights))
    assert gini(sorted_magnitudes(weights[::-1] * scale)) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("size", [1, 2, 7, 3_000_000])
def test_known_values(size: int) -> None:
    assert gini(np.full(size, 0.3, dtype=np.float32)) == pytest.approx(0, abs=1e-12)
    one_hot = np.zeros(size, dtype=np.float32)
    one_hot[-1] = 2.0
    assert gini(one_hot) == pytest.approx((size - 1) / size)
    assert gini(np.zeros(size)) == 0.0


def test_chunks_do_not_change_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    values = sorted_magnitudes(np.random.default_rng(0).normal(size=1000))
    whole = gini(values)
    monkeypatch.setattr("glocalfair.aggregation.gini._CHUNK", 17)
    assert gini(values) == pytest.approx(whole, rel=1e-14)


@given(WEIGHTS)
def test_lorenz_curve_rises_below_the_diagonal_and_encloses_half_the_gini(weights: np.ndarray) -> None:
    ordered = sorted_magnitudes(weights)
    curve = lorenz(ordered, len(ordered) + 1)
    assert curve[0] == 0 and curve[-1] == pytest.approx(1)
    assert (np.diff(curve) >= -1e-12).all()
    assert (curve <= np.linspace(0, 1, len(curve)) + 1e-12).all()
    area = 1 - 2 * np.trapezoid(curve, dx=1 / len(ordered))
    assert area == pytest.approx(gini(ordered), abs=1e-9)


@given(st.integers(0, 1000), st.integers(1, 5), st.integers(1, 60), st.booleans())
def test_models_beside_it_do_not_change_a_value(seed: int, models: int, size: int, moved: bool) -> None:
    """A client computes its own, and the server all at once: bit by bit the same."""
    rng = np.random.default_rng(seed)
    drawn = rng.normal(size=(models, size)).astype(np.float32)
    drawn[0] *= rng.integers(0, 2)
    origin = rng.normal(size=size).astype(np.float32) if moved else None
    sent = [weights.astype(np.float64) if rng.random() < 0.1 else weights for weights in drawn]
    for (value, curve), weights in zip(inequalities(sent, 11, origin), sent, strict=True):
        alone = inequality(weights, 11, origin)
        assert value == alone[0]
        np.testing.assert_array_equal(curve, alone[1])


@given(WEIGHTS, st.integers(2, 60))
def test_lorenz_curve_by_interpolation(weights: np.ndarray, points: int) -> None:
    """Also where the curve has more points than there are values."""
    ordered = sorted_magnitudes(weights)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    share = sums / sums[-1] if sums[-1] > 0 else np.linspace(0, 1, len(sums))
    expected = np.interp(np.linspace(0, len(ordered), points), np.arange(len(sums)), share)
    np.testing.assert_allclose(lorenz(ordered, points), expected, atol=1e-12)
