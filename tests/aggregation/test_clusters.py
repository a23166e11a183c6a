from itertools import combinations

import kmeans1d
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glocalfair.aggregation.clusters import MOST, cluster, elbow, kmeans_1d

VALUES = st.lists(st.floats(0, 1).map(lambda v: round(v, 4)), min_size=1, max_size=9).map(np.array)


def error_of(values: np.ndarray, labels: np.ndarray) -> float:
    return float(sum(((values[labels == c] - values[labels == c].mean()) ** 2).sum() for c in set(labels.tolist())))


def brute_force(values: np.ndarray, p: int) -> float:
    """Try every way to cut the sorted values into p intervals."""
    x = np.sort(values)
    return min(
        sum(((part - part.mean()) ** 2).sum() for part in np.split(x, cuts))
        for cuts in combinations(range(1, len(x)), p - 1)
    )


@given(VALUES)
def test_is_optimal_for_every_number_of_clusters(values: np.ndarray) -> None:
    most = len(values)
    errors, labels = kmeans_1d(values, most)
    for p in range(1, most + 1):
        assert errors[p - 1] == pytest.approx(brute_force(values, p), abs=1e-12)
        assert error_of(values, labels(p)) == pytest.approx(errors[p - 1], abs=1e-12)
        assert set(labels(p).tolist()) == set(range(p))


@given(st.lists(st.floats(0, 1), min_size=4, max_size=60, unique=True).map(np.array), st.integers(1, 4))
def test_agrees_with_an_independent_library(values: np.ndarray, p: int) -> None:
    _, labels = kmeans_1d(values, p)
    theirs, _ = kmeans1d.cluster(values, p)
    assert error_of(values, labels(p)) == pytest.approx(error_of(values, np.array(theirs)), abs=1e-9)


def test_clusters_are_numbered_in_the_order_of_their_values() -> None:
    assert cluster(np.array([0.9, 0.1, 0.11, 0.91])).tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0.4], [0]), ([0.4, 0.4], [0, 0]), ([0.4] * 5, [0] * 5), ([0.4, 0.9], [0, 0]), ([0.1, 0.2, 0.9], [0, 0, 1])],
)
def test_few_or_equal_values(values: list[float], expected: list[int]) -> None:
    """Two points have no elbow; three distinct ones always split in two."""
    assert cluster(np.array(values)).tolist() == expected


def test_a_given_number_of_clusters() -> None:
    values = np.array([0.1, 0.2, 0.9])
    assert len(set(cluster(values, 3).tolist())) == 3
    assert len(set(cluster(values, 5).tolist())) == 3
    assert set(cluster(values, 1).tolist()) == {0}


def test_elbow_by_hand() -> None:
    # Chord from 10 to 0 over four points: 10, 6.67, 3.33, 0; the curve lies 4.67, 2.33 below it at p = 2, 3.
    assert elbow(np.array([10.0, 2.0, 1.0, 0.0])) == 2
    assert elbow(np.array([9.0, 6.0, 3.0, 0.0])) == 1
    assert elbow(np.array([1e-13, 0.0])) == 1


def test_the_elbow_looks_at_no_more_than_the_limit() -> None:
    values = np.repeat(np.arange(20.0), 2)
    assert len(set(cluster(values).tolist())) <= MOST
