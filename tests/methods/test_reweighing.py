"""Local reweighing: the weights reach the loss, by hand."""

from __future__ import annotations

import numpy as np

from glocalfair.methods.reweighing import Reweighing
from glocalfair.types import ServerState
from tests.federations import context, held, replied, seen, sent


def test_one_round_by_hand():
    # (y, a): (1,0) twice, (0,0) once, (1,1) once, (0,1) twice.
    data = held([1, 1, 0, 1, 0, 0], [0, 0, 0, 1, 1, 1])
    method = Reweighing()
    state = ServerState(np.zeros(2))
    plan = method.plan(method.broadcast(state, "k", context()), seen(data, [0.0] * 6), {})
    often, rare = (0.5 * 0.5) / (2 / 6), (0.5 * 0.5) / (1 / 6)
    np.testing.assert_allclose(plan[0].sample_weight, [often, often, rare, rare, often, often])
    assert replied(method, seen(data, [0.0] * 6), np.zeros(2), state).payload == {}
    after, _ = method.server_round(state, [sent("a", [1.0, 0.0], 3), sent("b", [0.0, 1.0], 1)], context(("a", "b")))
    np.testing.assert_allclose(after.weights, [0.75, 0.25])


def test_cells_that_a_client_lacks_are_not_used():
    data = held([1, 0, 0], [0, 0, 2], values=3)
    plan = Reweighing().plan(
        Reweighing().broadcast(ServerState(np.zeros(1)), "k", context()), seen(data, [0.0] * 3), {}
    )
    # W(0,1) = (2/3 · 1/3)/(1/3), W(0,0) = (2/3 · 2/3)/(1/3), W(2,0) = (1/3 · 2/3)/(1/3).
    np.testing.assert_allclose(plan[0].sample_weight, [2 / 3, 4 / 3, 2 / 3])
