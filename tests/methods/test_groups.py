"""Group codes, sums by cell, Kamiran–Calders weights and simplex projections against independent oracles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from glocalfair.errors import GlocalfairError
from glocalfair.methods.groups import ascend_simplex, by_cell, group_codes, project_simplex, reweighing
from glocalfair.registry import method, methods
from glocalfair.types import Attribute, ClientData
from tests.federations import held

points = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8).map(np.array)


@given(points, st.floats(0.01, 10))
def test_projection_meets_the_optimality_conditions(point, mass):
    x = project_simplex(point, mass)
    assert (x >= 0).all() and x.sum() == pytest.approx(mass, rel=1e-9, abs=1e-9)
    # x = max(0, point − θ): the residual is one number θ where x > 0 and no larger elsewhere.
    theta = (point - x)[x > 0]
    np.testing.assert_allclose(theta, theta[0], atol=1e-9)
    assert (point[x == 0] <= theta[0] + 1e-9).all()


@pytest.mark.parametrize("seed", range(10))
def test_projection_against_scipy(seed):
    point = np.random.default_rng(seed).normal(size=4)
    found = minimize(
        lambda x: ((x - point) ** 2).sum(),
        np.full(4, 0.25),
        jac=lambda x: 2 * (x - point),
        bounds=[(0, None)] * 4,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        options={"ftol": 1e-14},
    )
    np.testing.assert_allclose(project_simplex(point), found.x, atol=1e-6)


@given(points)
def test_projection_does_not_see_a_shift_and_keeps_the_simplex(point):
    x = project_simplex(point)
    np.testing.assert_allclose(project_simplex(point + 7.0), x, atol=1e-9)
    np.testing.assert_allclose(project_simplex(x), x, atol=1e-12)


def test_entries_without_a_value_take_no_part():
    before = np.array([0.5, 0.2, 0.3])
    after = ascend_simplex(before, np.array([1.0, np.nan, 3.0]), 0.1)
    # The two known ones share 0.8 and move apart by 0.1·(3 − 1).
    np.testing.assert_allclose(after, [0.4, 0.2, 0.4])
    np.testing.assert_array_equal(ascend_simplex(before, np.full(3, np.nan), 0.1), before)


@given(st.integers(1, 40), st.integers(1, 4), st.integers(0, 10**6))
def test_weights_make_label_and_group_independent(rows, groups, seed):
    rng = np.random.default_rng(seed)
    y, a = rng.integers(2, size=rows), rng.integers(groups, size=rows)
    weight = reweighing(y, a, groups)
    for label in (0, 1):
        for group in range(groups):
            cell = (y == label) & (a == group)
            if cell.any():
                expected = (y == label).mean() * (a == group).mean()
                assert weight[cell].sum() / rows == pytest.approx(expected)


@pytest.mark.parametrize(("y", "a"), [([0, 1, 1], [1, 1, 1]), ([1, 1, 1], [0, 1, 1]), ([0], [0])])
def test_one_group_or_one_class_has_nothing_to_reweigh(y, a):
    np.testing.assert_array_equal(reweighing(np.array(y), np.array(a), 2), np.ones(len(y)))


def test_sums_by_cell():
    y, a, values = np.array([1, 0, 1, 1]), np.array([2, 0, 2, 1]), np.array([0.5, 1.0, 0.25, 4.0])
    np.testing.assert_array_equal(by_cell(y, a, 3, values), [[1.0, 0.0, 0.0], [0.0, 4.0, 0.75]])
    np.testing.assert_array_equal(by_cell(y, a, 3), [[1, 0, 0], [0, 1, 2]])


def test_attribute_by_name_first_and_crossed():
    attributes = (Attribute("sex", ("f", "m")), Attribute("race", ("x", "y", "z")))
    data = ClientData("k", np.zeros(3, int), np.array([[0, 2], [1, 0], [1, 2]]), attributes)
    assert [(c.tolist(), n) for c, n in (group_codes(data, name) for name in ("", "race", "intersection"))] == [
        ([0, 1, 1], 2),
        ([2, 0, 2], 3),
        ([2, 3, 5], 6),
    ]


SINGLE = [name for name, kind in methods().items() if kind.attributes == "single"]


@pytest.mark.parametrize("name", SINGLE)
def test_a_wrong_attribute_is_refused_when_a_client_enrols(name):
    with pytest.raises(GlocalfairError, match=r"Unknown attribute 'sx'.*Known: a, intersection"):
        method(name, {"attribute": "sx"}).enrol(held([0, 1], [0, 1]))
    with pytest.raises(GlocalfairError, match="the data have none"):
        method(name).enrol(ClientData("k", np.array([0]), np.empty((1, 0), int), ()))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("qffl", {"q": -1.0}),
        ("qffl", {"L": 0.0}),
        ("qffl", {"L": "large"}),
        ("gifair", {"c": 1.0}),
        ("gifair", {"c": -0.1}),
        ("fairfed", {"beta": -1.0}),
        ("fairfed", {"metric": "eod"}),
        ("fairfed", {"variant": "v1"}),
        ("fairfed", {"local_debias": "yes"}),
        ("fedfb", {"alpha": float("nan")}),
        ("fedfb", {"notion": "ep"}),
        ("fedfb", {"step": "big"}),
        ("afl", {"eta": -1.0}),
        ("ditto", {"lam": -1.0}),
        ("ditto", {"personal_epochs": -1}),
        ("fedprox", {"mu": float("inf")}),
        ("fedminmax", {"eta": -0.5}),
    ],
)
def test_bad_settings_are_explained(name, values):
    (key,) = values
    with pytest.raises(GlocalfairError, match=f"'{key}' must be"):
        method(name, values)
    with pytest.raises(GlocalfairError, match=f"'{key}' must be"):
        methods()[name](**values)
