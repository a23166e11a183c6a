"""FedFB: each notion by hand, the 0-1 identity of its direction, boxes and symmetry."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glocalfair.methods.fedfb import FedFB, dp_direction, odds_direction
from tests.federations import context, enrolled, held, replied, seen


@st.composite
def predictions(draw: st.DrawFn, groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 60))
    chance = draw(st.sampled_from([0.0, 0.2, 0.5, 1.0]))
    return (rng.random(n) < chance).astype(int), rng.integers(groups, size=n), rng.integers(2, size=n)


def cells(values: np.ndarray, y: np.ndarray, a: np.ndarray, groups: int) -> np.ndarray:
    """Sum with a plain loop."""
    return np.array([[values[(y == label) & (a == g)].sum() for g in range(groups)] for label in (0, 1)], float)


@given(predictions(3))
def test_with_the_01_loss_the_direction_is_the_gap_of_positive_rates(rows):
    y, a, p = rows
    direction, _ = dp_direction(cells(p != y, y, a, 3), cells(np.ones(len(y)), y, a, 3))
    present = [g for g in range(3) if (a == g).any()]
    expected = np.zeros(3)
    for g in present[1:]:
        expected[g] = p[a == g].mean() - p[a == present[0]].mean()
    expected[present[0]] = -expected.sum()
    np.testing.assert_allclose(direction, expected, atol=1e-12)


@given(predictions(2), st.sampled_from(["dp", "eo", "eqodds"]))
def test_swapping_the_groups_swaps_the_direction(rows, notion):
    y, a, p = rows
    loss, ones = np.abs(p - 0.3), np.ones(len(y))

    def direction(codes: np.ndarray) -> np.ndarray:
        losses, counts = cells(loss, y, codes, 2), cells(ones, y, codes, 2)
        if notion == "dp":
            return dp_direction(losses, counts)[0]
        return odds_direction(losses, counts, (1,) if notion == "eo" else (0, 1))[0]

    np.testing.assert_allclose(direction(1 - a), direction(a)[..., ::-1], atol=1e-12)
    np.testing.assert_allclose(direction(1 - a), -direction(a), atol=1e-12)


@given(
    predictions(3),
    st.sampled_from(["dp", "eo", "eqodds"]),
    st.sampled_from(["decay", "normalised"]),
    st.floats(0, 10),
    st.integers(1, 3),
)
def test_lambda_stays_in_its_box(rows, notion, step, alpha, groups):
    y, a, p = rows
    a = a % groups
    loss, counts = cells(5.0 * p + 0.1, y, a, groups), cells(np.ones(len(y)), y, a, groups)
    method = FedFB(notion=notion, step=step, alpha=alpha)
    share = counts / len(y)
    if notion == "dp":
        share = np.stack([share.sum(0)] * 2)
    lam = share
    for number in (1, 2, 3):
        lam = method.move(lam, share, loss, counts, number)
        assert (lam >= 0).all()
        # dp: λ_{0,a} + λ_{1,a} = 2p_a; otherwise Σ_a λ_{y,a} = P(y).
        axis = 0 if notion == "dp" else 1
        np.testing.assert_allclose(lam.sum(axis), share.sum(axis), atol=1e-12)


# Client "one" has both groups, "two" only group 1.
ONE = held([0, 0, 1, 1, 0, 1], [0, 0, 0, 1, 1, 0], "one")
TWO = held([1, 0], [1, 1], "two")
COUNTS = np.array([[2, 2], [2, 2]])
SCORES = {"one": [1.0, -1.0, 2.0, -2.0, 0.5, 0.0], "two": [1.0, -3.0]}


def pooled_losses() -> np.ndarray:
    sums = np.zeros((2, 2))
    for data in (ONE, TWO):
        for y, a, s in zip(data.y, data.groups[:, 0], SCORES[data.name], strict=True):
            sums[y, a] += np.log(1 + np.exp(-s if y else s))
    return sums


def one_round(method: FedFB, number: int = 1) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return λ and the weights n·v after a round, and the next round's sample weights."""
    state = method.init(np.zeros(2), enrolled(method, ONE, TWO))
    np.testing.assert_array_equal(method.broadcast(state, "one", context()).payload["cell_weight"], np.ones((2, 2)))
    updates = [replied(method, seen(d, SCORES[d.name]), np.eye(2)[k], state) for k, d in enumerate((ONE, TWO))]
    state, _ = method.server_round(state, updates, context(("one", "two"), number))
    np.testing.assert_allclose(state.weights, [0.75, 0.25])
    sending = method.broadcast(state, "one", context())
    plans = {d.name: method.plan(sending, seen(d, SCORES[d.name]), {})[0].sample_weight for d in (ONE, TWO)}
    return np.asarray(state.values["lam"]), np.asarray(sending.payload["cell_weight"]), plans


@pytest.mark.parametrize(("step", "number"), [("decay", 1), ("decay", 4), ("normalised", 4)])
def test_demographic_parity_by_hand(step, number):
    s, m = pooled_losses(), COUNTS
    size = np.array([4.0, 4.0])
    f = -s[0, 0] / size[0] + s[1, 0] / size[0] + s[0, 1] / size[1] - s[1, 1] / size[1]
    f += m[0, 0] / size[0] - m[0, 1] / size[1]
    # Binary and normalised: ±α/√2.
    move = 0.05 * f / np.sqrt(number) if step == "decay" else 0.05 * np.sign(f) / np.sqrt(2)
    expected = np.array([[0.5 - move, 0.5 + move], [0.5 + move, 0.5 - move]])
    lam, weight, plans = one_round(FedFB(notion="dp", alpha=0.05, step=step), number)
    np.testing.assert_allclose(lam, expected)
    # n·v(y,a) = n λ/m_{⋆,a}.
    np.testing.assert_allclose(weight, 8 * expected / 4)
    np.testing.assert_allclose(plans["two"], [weight[1, 1], weight[0, 1]])


@pytest.mark.parametrize(("step", "number"), [("decay", 4), ("normalised", 4)])
def test_equalised_odds_by_hand(step, number):
    mean = pooled_losses() / COUNTS
    d = mean[:, 1] - mean[:, 0]
    rate = 0.05 / np.sqrt(number) if step == "decay" else 0.05 / np.linalg.norm(d)
    expected = np.stack([0.25 - rate * d, 0.25 + rate * d], axis=1)
    lam, weight, _ = one_round(FedFB(notion="eqodds", alpha=0.05, step=step), number)
    np.testing.assert_allclose(lam, expected)
    np.testing.assert_allclose(weight, 8 * expected / COUNTS)


def test_equal_opportunity_by_hand():
    mean = pooled_losses() / COUNTS
    sign = np.sign(mean[1, 1] - mean[1, 0])
    lam, weight, _ = one_round(FedFB(notion="eo", alpha=0.05, step="normalised"))
    np.testing.assert_allclose(lam, [[0.25, 0.25], [0.25 - 0.05 * sign, 0.25 + 0.05 * sign]])
    np.testing.assert_array_equal(weight[0], [1.0, 1.0])


def test_the_unfairly_treated_cell_weighs_more():
    # Positives of group 1 are predicted worst: equal opportunity must raise them.
    _, weight, _ = one_round(FedFB(notion="eo"))
    assert weight[1, 1] > 1 > weight[1, 0]


def test_weights_have_mean_one_whatever_the_size_of_the_federation():
    # v alone would shrink every SGD step by the number of rows.
    _, weight, plans = one_round(FedFB(alpha=0.1))
    rows = np.concatenate(list(plans.values()))
    assert rows.mean() == pytest.approx(1.0)
    assert weight.shape == (2, 2)


def test_means_and_not_sums_are_compared():
    counts = np.array([[0.0, 0.0], [90.0, 10.0]])
    direction, _ = odds_direction(np.array([[0.0, 0.0], [90.0, 20.0]]), counts, (1,))
    np.testing.assert_allclose(direction[1], [-1.0, 1.0])


def test_losses_and_counts_are_those_of_the_participants():
    # Group sizes of the absent client must not dilute the losses of those present.
    method = FedFB(notion="eqodds", alpha=0.05)
    state = method.init(np.zeros(2), enrolled(method, ONE, TWO))
    update = replied(method, seen(ONE, SCORES["one"]), np.zeros(2), state)
    state, _ = method.server_round(state, [update], context(("one",)))
    loss = [np.log(1 + np.exp(v)) for v in (1.0, -1.0, -2.0, 2.0, 0.5, 0.0)]
    d = np.array([loss[4] - (loss[0] + loss[1]) / 2, loss[3] - (loss[2] + loss[5]) / 2])
    np.testing.assert_allclose(np.asarray(state.values["lam"])[:, 1], 0.25 + 0.05 * d)


def test_a_reference_group_that_is_absent_is_replaced():
    losses, counts = np.array([[0.0, 3.0, 1.0], [0.0, 0.0, 0.0]]), np.array([[0.0, 3.0, 2.0], [0.0, 0.0, 0.0]])
    direction, norm = odds_direction(losses, counts, (0, 1))
    np.testing.assert_allclose(direction, [[0.0, 0.5, -0.5], [0.0, 0.0, 0.0]])
    assert norm == pytest.approx(0.5)
