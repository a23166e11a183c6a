"""q-FedAvg: one round by the published formulas, and the pitfalls of L."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glocalfair.methods.qffl import QFFL
from glocalfair.types import ServerState
from tests.federations import context, drawn, held, play, replied, seen, sent, simulator


@pytest.mark.parametrize("q", [0.1, 1.0, 5.0])
def test_one_round_by_the_published_formulas(q):
    old = np.array([1.0, -2.0])
    trained, losses, examples = [[0.4, -1.5], [1.2, -2.6]], [0.8, 0.3], [30, 10]
    L = 1 / 0.05
    numerator, denominator = np.zeros(2), 0.0
    for w, f, n in zip(trained, losses, examples, strict=True):
        p, f = n / 40, f + 1e-10
        delta_w = L * (old - np.array(w))
        numerator += p * f**q * delta_w
        denominator += p * (q * f ** (q - 1) * (delta_w @ delta_w) + L * f**q)
    expected = old - numerator / denominator
    updates = [sent(c, w, n, {"loss": f}) for c, w, n, f in zip("ab", trained, examples, losses, strict=True)]
    state, log = QFFL(q=q, L="paper").server_round(ServerState(old), updates, context(("a", "b"), lr=0.05))
    np.testing.assert_allclose(state.weights, expected, rtol=1e-9)
    lengths = [np.linalg.norm(old - w) for w in trained]
    assert log["step_ratio"] == pytest.approx(np.linalg.norm(expected - old) / np.mean(lengths))


def test_loss_is_of_the_received_model_on_all_rows():
    data = held([1, 0], [0, 0])
    method = QFFL()
    update = replied(method, seen(data, [2.0, -1.0]), np.zeros(2), ServerState(np.zeros(2)))
    by_hand = (np.log(1 + np.exp(-2.0)) + np.log(1 + np.exp(-1.0))) / 2
    assert update.payload == {"loss": pytest.approx(by_hand)}


def test_auto_makes_l_times_d_the_mean_gradient():
    training = context(lr=0.1, momentum=0.0, epochs=2, batch_size=10).training
    gradients = np.array([3.0, 1.0, 2.0, 2.0, 0.0, 4.0])
    # 25 rows make 3 steps an epoch.
    assert QFFL().smoothness(25, training) * (0.1 * gradients).sum() == pytest.approx(gradients.mean())
    heavy = context(lr=0.1, momentum=0.9, epochs=2, batch_size=10).training
    assert QFFL().smoothness(25, heavy) == pytest.approx(0.1 * QFFL().smoothness(25, training))
    adam = context(optimizer="adam", lr=0.1, epochs=2, batch_size=10).training
    assert QFFL().smoothness(25, adam) == pytest.approx(1 / 0.6)


def test_auto_moves_where_the_papers_l_stands_still():
    federation = drawn()
    ratio = {
        size: play(simulator(QFFL(q=1.0, L=size), federation, epochs=5), 3)[1][-1]["server"]["step_ratio"]
        for size in ("auto", "paper")
    }
    assert ratio["auto"] > 0.3
    assert ratio["paper"] < ratio["auto"] / 3


@pytest.mark.parametrize("q", [0.1, 1.0, 5.0])
def test_a_loss_of_zero_is_no_division_by_zero(q):
    updates = [sent("a", [0.0, 0.0], 1, {"loss": 0.0}), sent("b", [0.5, 0.5], 1, {"loss": 0.0})]
    share, log = QFFL(q=q, L=1.0).coefficients(ServerState(np.zeros(2)), updates, context(("a", "b")))
    assert np.isfinite(share).all() and 0 <= log["step_ratio"] <= 1


clients = st.lists(
    st.tuples(st.integers(1, 1000), st.floats(0, 50), st.floats(0, 100), st.floats(1e-3, 1e3)), min_size=1, max_size=6
)


@given(clients, st.floats(0, 20))
def test_shares_are_a_part_of_one(drawn_clients, q):
    examples, losses, norms, smoothness = (np.array(v, dtype=float) for v in zip(*drawn_clients, strict=True))
    share = QFFL(q=q).shares(examples, losses, norms, smoothness)
    assert (share >= 0).all() and share.sum() <= 1 + 1e-12


def test_only_trained_weights_count_in_the_norm():
    # The last entry is a BatchNorm statistic: its change says nothing about the gradient.
    one = [sent("a", [1.0, 5.0], 3, {"loss": 1.0})]
    two = [sent("a", [1.0, 900.0], 3, {"loss": 1.0})]
    method, state = QFFL(q=1.0, L=1.0), ServerState(np.zeros(2))
    shares = [method.coefficients(state, updates, context(("a",), size=1))[0] for updates in (one, two)]
    assert shares[0] == shares[1] == pytest.approx(0.5)
