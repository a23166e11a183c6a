import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from glocalfair.local import dual


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=6), st.floats(0.1, 3))
def test_simplex_projection_is_the_nearest_point(values: list[float], total: float) -> None:
    target = np.array(values)
    ours = dual.project_simplex(torch.tensor(values, dtype=torch.float64), total).numpy()
    assert ours.sum() == pytest.approx(total) and (ours >= 0).all()
    start = np.full(len(values), total / len(values))
    constraint = {"type": "eq", "fun": lambda v: v.sum() - total}
    found = minimize(
        lambda v: ((v - target) ** 2).sum(),
        start,
        bounds=[(0, None)] * len(values),
        constraints=[constraint],
        method="SLSQP",
    )
    assert ((ours - target) ** 2).sum() <= found.fun + 1e-6


def test_lagrangian_solves_the_toy_problem() -> None:
    """min x² s.t. 1 − x ≤ 0 has x = 1 and λ = 2."""
    x, multiplier = 0.0, torch.zeros(1, 1, dtype=torch.float64)
    for _ in range(4000):
        gradient = 2 * x - float(multiplier)
        multiplier = dual.ascend(multiplier, torch.tensor([[1 - x]], dtype=torch.float64), 0.05, None)
        x -= 0.05 * gradient
    assert x == pytest.approx(1, abs=1e-6)
    assert float(multiplier) == pytest.approx(2, abs=1e-6)


@pytest.mark.parametrize("update", ["multiplicative", "additive"])
def test_proxy_lagrangian_solves_the_toy_problem(update: str) -> None:
    x, seen = 0.0, []
    matrix = dual.initial_matrix(1, 1, update == "additive", torch.float64)
    for _ in range(20_000):
        weight = dual.stationary(matrix)
        objective, multiplier = float(weight[0, 0]), float(weight[0, 1])
        gradient = objective * 2 * x - multiplier
        matrix = dual.swap_step(matrix, weight, torch.tensor([[1 - x]], dtype=torch.float64), 0.01, update)  # type: ignore[arg-type]
        x -= 0.01 * gradient
        seen.append(x)
    assert np.mean(seen[-2000:]) == pytest.approx(1, abs=1e-2)
    assert multiplier / objective == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("update", ["multiplicative", "additive"])
def test_columns_stay_distributions_and_multiplier_is_stationary(update: str) -> None:
    matrix = dual.initial_matrix(3, 4, update == "additive", torch.float64)
    rng = np.random.default_rng(0)
    for _ in range(200):
        weight = dual.stationary(matrix)
        fixed = torch.einsum("kij,kj->ki", matrix, weight)
        np.testing.assert_allclose(fixed / fixed.sum(1, keepdim=True), weight, atol=1e-5)
        matrix = dual.swap_step(matrix, weight, torch.tensor(rng.normal(size=(3, 4)) * 0.1), 0.5, update)  # type: ignore[arg-type]
        # The multiplicative update floors small entries afterwards, as its authors do.
        np.testing.assert_allclose(matrix.sum(1), 1, atol=2 * dual.FLOOR)
        assert (matrix >= 0).all()


def test_a_violated_constraint_gains_and_a_slack_one_falls_to_the_floor() -> None:
    matrix = dual.initial_matrix(1, 2, False, torch.float64)
    for _ in range(500):
        weight = dual.stationary(matrix)
        matrix = dual.swap_step(matrix, weight, torch.tensor([[0.5, -0.5]], dtype=torch.float64), 0.5, "multiplicative")
    final = dual.stationary(matrix)[0]
    assert final[1] > 0.9
    assert final[2] < 2 * dual.FLOOR


def test_radius_bounds_the_multipliers() -> None:
    moved = dual.ascend(torch.zeros(2, 3), torch.tensor([[5.0, 1.0, -1.0], [0.1, 0.0, 0.0]]), 1.0, 2.0)
    np.testing.assert_allclose(moved, [[2.0, 0.0, 0.0], [0.1, 0.0, 0.0]], atol=1e-6)
