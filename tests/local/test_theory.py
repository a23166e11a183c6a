import math

import pytest

from glocalfair.errors import GlocalfairError
from glocalfair.local.theory import step_sizes


def test_formulas_with_round_numbers() -> None:
    found = step_sizes(2.0, 4.0, 0.5, constraints=3, delta=2 / math.e, steps=8)
    assert found.eta_theta == pytest.approx(2 / (4 * 4))
    assert found.eta_lambda == pytest.approx(math.sqrt(4 * math.log(4) / 2))
    assert found.epsilon_theta == pytest.approx(16 * math.sqrt(17 / 8))
    assert found.epsilon_lambda == pytest.approx(math.sqrt(2 * 4 * math.log(4) * 17 / 8))


def test_more_steps_buy_accuracy_as_one_over_the_root() -> None:
    few, many = (step_sizes(1, 1, 1, 8, 0.1, steps) for steps in (100, 10_000))
    assert few.epsilon_theta / many.epsilon_theta == pytest.approx(10)
    assert few.epsilon_lambda / many.epsilon_lambda == pytest.approx(10)
    assert "random" in few.covers and "Sigmoid" in few.does_not_cover


@pytest.mark.parametrize("bad", [{"theta_bound": 0}, {"delta": 1.5}, {"steps": 0}, {"constraints": 0}])
def test_impossible_bounds_are_refused(bad: dict[str, float]) -> None:
    good = {"theta_bound": 1, "gradient_bound": 1, "violation_bound": 1, "constraints": 2, "delta": 0.1, "steps": 10}
    with pytest.raises(GlocalfairError, match=next(iter(bad))):
        step_sizes(**{**good, **bad})  # type: ignore[arg-type]
