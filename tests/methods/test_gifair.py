"""GIFAIR: ranks against a double loop, the factors of the paper's Adult clients, memory of losses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glocalfair.methods.gifair import Gifair, sign_sums
from glocalfair.types import ClientInfo
from tests.federations import context, held, seen, sent

losses = st.lists(st.sampled_from([0.1, 0.2, 0.5, 0.9, float("nan")]), min_size=1, max_size=8).map(np.array)


@given(losses)
def test_ranks_are_sums_of_signs(values):
    by_hand = [
        sum(np.sign(mine - its) for its in values if not np.isnan(its)) if not np.isnan(mine) else 0 for mine in values
    ]
    ranks = sign_sums(values)
    assert ranks.tolist() == by_hand
    assert ranks.sum() == 0


@given(losses, st.floats(0, 1, exclude_max=True), st.integers(0, 10**6))
def test_steps_never_go_backwards(values, c, seed):
    share = np.random.default_rng(seed).integers(1, 10_000, len(values)).astype(float)
    assert (Gifair(c=c).lr_scales(share / share.sum(), sign_sums(values)) > 0).all()


def test_scaled_rates_descend_the_penalised_objective():
    # Σ p_k (1 + λ r_k/p_k) F_k = Σ p_k F_k + λ Σ_{i<j} |F_i − F_j|.
    p, f = np.array([0.5, 0.2, 0.3]), np.array([0.7, 0.1, 0.4])
    lam = 0.6 * p.min() / 2
    penalised = p @ f + lam * (abs(f[0] - f[1]) + abs(f[0] - f[2]) + abs(f[1] - f[2]))
    assert (p * Gifair(c=0.6).lr_scales(p, sign_sums(f))) @ f == pytest.approx(penalised)


def test_factors_of_four_uneven_clients():
    p = np.array([0.588, 0.080, 0.267, 0.065])
    scale = Gifair(c=0.5).lr_scales(p, np.array([3, 3, 3, 3]))
    np.testing.assert_allclose(scale - 1, [0.055, 0.40, 0.12, 0.50], atol=0.01)


def test_one_round_by_hand():
    method = Gifair()
    infos = {"a": ClientInfo(60), "b": ClientInfo(20), "c": ClientInfo(20)}
    state = method.init(np.zeros(2), infos)
    everybody = context(("a", "b", "c"))
    assert [method.broadcast(state, c, everybody).payload for c in "abc"] == [{"lr_scale": 1.0}] * 3
    updates = [sent("a", [1.0, 0.0], 60, {"loss": 0.9}), sent("c", [0.0, 2.0], 20, {"loss": 0.4})]
    state, _ = method.server_round(state, updates, context(("a", "c")))
    np.testing.assert_allclose(state.weights, [0.75, 0.5])
    # r = (1, 0, −1): b is unknown yet. λ = 0.5 · 0.2/2 over all three clients, not over the two that came.
    rates = [method.broadcast(state, c, everybody).payload["lr_scale"] for c in "abc"]
    np.testing.assert_allclose(rates, [1 + 0.05 / 0.6, 1.0, 1 - 0.05 / 0.2])
    # b now has the highest loss; a is absent and keeps 0.9, so r = (0, 2, −2).
    updates = [sent("b", [0.0, 0.0], 20, {"loss": 2.0}), sent("c", [0.0, 0.0], 20, {"loss": 0.4})]
    state, _ = method.server_round(state, updates, context(("b", "c"), 2))
    rates = [method.broadcast(state, c, everybody).payload["lr_scale"] for c in "abc"]
    np.testing.assert_allclose(rates, [1.0, 1 + 2 * 0.05 / 0.2, 1 - 2 * 0.05 / 0.2])


def test_the_factor_reaches_the_learning_rate():
    method = Gifair()
    state = method.init(np.zeros(2), {"k": ClientInfo(2), "l": ClientInfo(2)})
    updates = [sent("k", [0.0, 0.0], 2, {"loss": 1.0}), sent("l", [0.0, 0.0], 2, {"loss": 0.5})]
    state, _ = method.server_round(state, updates, context(("k", "l")))
    plan = method.plan(method.broadcast(state, "k", context()), seen(held([0, 1], [0, 1]), [0.0, 0.0]), {})
    assert [stage.lr_scale for stage in plan] == [1.5]


def test_a_client_alone_trains_plainly():
    method = Gifair(c=0.9)
    state = method.init(np.zeros(2), {"a": ClientInfo(5)})
    state, _ = method.server_round(state, [sent("a", [1.0, 1.0], 5, {"loss": 1.0})], context(("a",)))
    assert method.broadcast(state, "a", context()).payload == {"lr_scale": 1.0}
