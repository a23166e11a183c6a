"""Buckets against the exact sort: the same Gini coefficient to 1e-9, whatever the values, or no answer at all."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from glocalfair.aggregation import buckets
from glocalfair.aggregation.buckets import TOLERANCE, inequality, tally
from glocalfair.aggregation.gini import gini, lorenz, sorted_magnitudes
from glocalfair.aggregation.gini import inequality as either

N = 1_100_000
Draw = Callable[[np.random.Generator], np.ndarray]


def normal(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(N, dtype=np.float32) * np.float32(0.03)


def layers(rng: np.random.Generator) -> np.ndarray:
    """Layers of different scales, normalisation weights of exactly 1 and biases of exactly 0."""
    scales = rng.uniform(-1, 1, (4, N // 4)) * np.array([[0.01], [0.03], [0.1], [0.5]])
    return np.concatenate([scales.ravel(), np.ones(500), np.zeros(500)]).astype(np.float32)


def some_ties(rng: np.random.Generator) -> np.ndarray:
    return np.concatenate([normal(rng), np.full(N // 100, 0.0123, np.float32)])


def half_precision(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(N).astype(np.float16).astype(np.float32)


def sparse(rng: np.random.Generator) -> np.ndarray:
    return normal(rng) * (rng.random(N) < 0.1)


def every_scale(rng: np.random.Generator) -> np.ndarray:
    return np.ldexp(rng.uniform(1, 2, N), rng.integers(-148, 126, N)).astype(np.float32)


def twice(rng: np.random.Generator) -> np.ndarray:
    return np.repeat(normal(rng), 2)


# Where ties or a narrow range leave too much to sort, the answer is None.
def quantised(rng: np.random.Generator) -> np.ndarray:
    return (rng.integers(-127, 128, (1100, 1000)) * rng.uniform(0.001, 0.01, (1100, 1))).astype(np.float32).ravel()


def cut_to_13_bits(rng: np.random.Generator) -> np.ndarray:
    return (normal(rng).view(np.uint32) & np.uint32(0xFFFFFC00)).view(np.float32)


def in_the_middle_of_its_bucket(rng: np.random.Generator) -> np.ndarray:
    return (normal(rng).view(np.uint32) & np.uint32(0xFFFFF000) | np.uint32(0x800)).view(np.float32)


def narrow(rng: np.random.Generator) -> np.ndarray:
    return (1 + 1e-4 * rng.standard_normal(N)).astype(np.float32)


def constant(rng: np.random.Generator) -> np.ndarray:
    return np.full(N, 0.3, np.float32)


def subnormal(rng: np.random.Generator) -> np.ndarray:
    return (rng.standard_normal(N) * 1e-40).astype(np.float32)


def infinite(rng: np.random.Generator) -> np.ndarray:
    return np.concatenate([normal(rng), [np.inf]]).astype(np.float32)


ANSWERED = [normal, layers, some_ties, half_precision, sparse, every_scale, twice]
LEFT_TO_THE_SORT = [
    quantised, cut_to_13_bits, in_the_middle_of_its_bucket, narrow, constant, subnormal, infinite,
]  # fmt: skip


def off(weights: np.ndarray, value: float) -> float:
    exact = gini(sorted_magnitudes(weights))
    return abs(value - exact) / exact if exact else abs(value)


@pytest.mark.parametrize("draw", ANSWERED)
def test_equals_the_sort(draw: Draw) -> None:
    weights = draw(np.random.default_rng(0))
    found = inequality(weights, 11)
    assert found is not None
    assert off(weights, found[0]) <= TOLERANCE
    np.testing.assert_allclose(found[1], lorenz(sorted_magnitudes(weights), 11), atol=1e-6)


@pytest.mark.parametrize("draw", LEFT_TO_THE_SORT)
def test_says_when_only_a_sort_can_tell(draw: Draw) -> None:
    assert inequality(draw(np.random.default_rng(0)), 11) is None


@pytest.mark.parametrize("draw", [*ANSWERED, *LEFT_TO_THE_SORT[:-1]])
def test_there_is_always_an_answer(draw: Draw) -> None:
    weights = draw(np.random.default_rng(1))
    assert off(weights, either(weights)[0]) <= TOLERANCE


@pytest.mark.parametrize("bits", [12, 14, 16])
@pytest.mark.parametrize("share", [1, 0.5])
def test_a_grid_whose_values_lie_evenly_around_the_middle(bits: int, share: float) -> None:
    """Neither the means of the buckets nor their counts tell that there are ties."""
    rng = np.random.default_rng(0)
    for drawn in (rng.standard_normal(N) * 0.1, rng.uniform(-1, 1, N)):
        grid = np.ldexp(np.floor(np.ldexp(drawn, bits)) + 0.5, -bits)
        weights = np.where(rng.random(N) < share, grid, drawn).astype(np.float32)
        assert off(weights, either(weights)[0]) <= TOLERANCE


def test_zeros() -> None:
    value, curve = either(np.zeros(N, np.float32), 3)
    assert value == 0
    assert curve.tolist() == [0, 0.5, 1]


# A few values, drawn often: ties, zeros, subnormal numbers and every scale beside each other.
VALUES = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, 1.0001, 0.3, 2.0**-149, 2.0**-126, 3e38]),
)
SMALL = arrays(np.float32, st.integers(1, 60), elements=VALUES)


@given(SMALL, st.integers(1, 50))
@example(np.full(2, 4097, np.float32), 8)  # in the very middle of its bucket
def test_never_wrong_on_a_few_values(weights: np.ndarray, times: int) -> None:
    weights = np.repeat(weights, times)
    found = inequality(weights, 5)
    if found is not None:
        assert off(weights, found[0]) <= TOLERANCE


@given(SMALL, st.integers(0, 2**32 - 1))
def test_a_few_values_among_many(few: np.ndarray, seed: int) -> None:
    """The many leave room to sort the few, so that there is an answer whenever the few do not outweigh them."""
    rng = np.random.default_rng(seed)
    weights = np.concatenate([rng.standard_normal(5000, dtype=np.float32), np.repeat(few, rng.integers(1, 20))])
    found = inequality(weights, 5)
    if found is not None:
        assert off(weights, found[0]) <= TOLERANCE


@given(SMALL)
def test_counts_and_sums_of_the_buckets(weights: np.ndarray) -> None:
    found = tally(weights)
    assert found is not None
    assert found.count.sum() == len(weights)
    assert (np.diff(found.code) > 0).all()
    assert found.total.sum() == pytest.approx(np.abs(weights.astype(np.float64)).sum(), rel=1e-12)


@pytest.mark.parametrize("draw", ANSWERED)
def test_pieces_and_origin_change_nothing(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    weights = draw(rng)
    origin = weights[rng.permutation(len(weights))]
    moved = inequality(weights - origin, 11)
    monkeypatch.setattr(buckets, "_CHUNK", 777)
    piecewise = inequality(weights, 11, origin)
    assert (moved is None) == (piecewise is None)
    if moved is not None and piecewise is not None:
        assert moved[0] == piecewise[0]
        np.testing.assert_array_equal(moved[1], piecewise[1])
