"""AFL: one round by hand, memory of losses, and the minimax point of a toy federation."""

from __future__ import annotations

import numpy as np
import pytest

from glocalfair.methods.afl import AFL
from glocalfair.types import ClientInfo
from tests.federations import context, sent

INFOS = {"a": ClientInfo(50), "b": ClientInfo(30), "c": ClientInfo(20)}


def test_one_round_by_hand():
    method = AFL(eta=0.1)
    state = method.init(np.zeros(2), INFOS)
    updates = [sent("a", [1.0, 0.0], 50, {"loss": 0.2}), sent("b", [0.0, 1.0], 30, {"loss": 1.2})]
    state, _ = method.server_round(state, updates, context(("a", "b")))
    np.testing.assert_allclose(state.weights, [0.625, 0.375])
    # a and b share 0.8: (0.5 + 0.02 − 0.07, 0.3 + 0.12 − 0.07); c was never heard of and keeps 0.2.
    np.testing.assert_allclose(state.values["lam"], [0.45, 0.35, 0.2])
    updates = [sent("c", [4.0, 4.0], 20, {"loss": 0.7})]
    state, log = method.server_round(state, updates, context(("c",), 2))
    assert log["coefficients"] == {"c": 1.0}
    # Now all three, a and b with their old losses, whose mean is 0.7.
    np.testing.assert_allclose(state.values["lam"], [0.40, 0.40, 0.2])


def test_participants_without_weight_are_averaged_by_size():
    method = AFL(eta=5.0)
    state = method.init(np.zeros(2), INFOS)
    losses = {"a": 9.0, "b": 0.1, "c": 0.1}
    updates = [sent(c, [0.0, 0.0], INFOS[c].examples, {"loss": f}) for c, f in losses.items()]
    state, _ = method.server_round(state, updates, context(("a", "b", "c")))
    assert np.asarray(state.values["lam"]).tolist() == [1.0, 0.0, 0.0]
    share, _ = method.coefficients(state, updates[1:], context(("b", "c"), 2))
    np.testing.assert_allclose(share, [0.6, 0.4])


def test_finds_the_model_that_is_best_for_the_worst_client():
    # Losses (w − t_k)² with t = 0, 1, 10: the minimax point is 5, the mean weighted by size is 2.3.
    targets, eta = np.array([0.0, 1.0, 10.0]), 0.002
    method = AFL(eta=eta)
    state = method.init(np.zeros(1), INFOS)
    path = []
    for number in range(1, 1501):
        w = state.weights[0]
        updates = [
            sent(c, [w - 0.05 * (w - t)], INFOS[c].examples, {"loss": (w - t) ** 2})
            for c, t in zip("abc", targets, strict=True)
        ]
        state, _ = method.server_round(state, updates, context(("a", "b", "c"), number, 1))
        path.append(state.weights[0])
    assert np.mean(path[500:]) == pytest.approx(5.0, abs=0.1)
