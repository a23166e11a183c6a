import numpy as np
import pytest

from glocalfair.local.iterates import choose

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("loss", "violation", "rule", "expected"),
    [
        ([0.3, 0.4, 0.35], [0.2, 0.0, 0.0], "best", 2),
        ([0.3, 0.4, 0.35], [0.2, 0.1, 0.1], "best", 2),
        ([0.3, 0.4, 0.35], [0.2, 0.1, 0.15], "best", 1),
        ([0.3, 0.4, 0.35], [0.0, 0.0, 0.0], "best", 0),
        # Ranks of f: 0 2 1, of V: 2 0 1; the largest of both: 2 2 1.
        ([0.3, 0.4, 0.35], [0.2, 0.0, 0.1], "tfco", 2),
        ([0.3, 0.4], [0.1, 0.0], "tfco", 0),
        ([0.3, 0.3], [0.1, 0.1], "tfco", 1),
        ([0.3, 0.4, 0.35], [0.0, 1.0, 1.0], "last", 2),
    ],
)
def test_rules(loss: list[float], violation: list[float], rule: str, expected: int) -> None:
    assert choose(np.array(loss), np.array(violation), rule, 0.0, RNG) == expected  # type: ignore[arg-type]


def test_tolerance_makes_small_violations_feasible() -> None:
    loss, violation = np.array([0.3, 0.4]), np.array([0.01, 0.0])
    assert choose(loss, violation, "best", 0.0, RNG) == 1
    assert choose(loss, violation, "best", 0.02, RNG) == 0


def test_random_draws_constrained_iterates_alike() -> None:
    drawn = [choose(np.zeros(4), np.zeros(4), "random", 0.0, RNG) for _ in range(600)]
    assert set(drawn) == {1, 2, 3}
    assert min(np.bincount(drawn)[1:]) > 150


def test_random_draws_by_the_weight_of_the_objective() -> None:
    weight = np.array([1.0, 0.9, 0.1])
    drawn = [choose(np.zeros(3), np.zeros(3), "random", 0.0, RNG, weight) for _ in range(1000)]
    assert np.mean(np.array(drawn) == 1) == pytest.approx(0.9, abs=0.04)
