"""FedMinMax: one round by hand with a one-group client, absent and empty groups."""

from __future__ import annotations

import numpy as np
import pytest

from glocalfair.methods.fedminmax import FedMinMax
from tests.federations import context, enrolled, held, replied, seen

ONE = held([1, 0, 1], [0, 0, 1], "one")
TWO = held([0], [0], "two")


def loss(y: int, s: float) -> float:
    return float(np.log(1 + np.exp(-s if y else s)))


def test_one_round_by_hand():
    method = FedMinMax(eta=0.5)
    state = method.init(np.zeros(2), enrolled(method, ONE, TWO))
    np.testing.assert_allclose(state.values["mu"], [0.75, 0.25])
    replies = [
        replied(method, seen(ONE, [1.0, 2.0, -1.0]), np.array([1.0, 0.0]), state),
        replied(method, seen(TWO, [0.5]), np.array([0.0, 4.0]), state),
    ]
    group0, group1 = loss(1, 1.0) + loss(0, 2.0), loss(1, -1.0)
    np.testing.assert_allclose(replies[0].payload["group_loss"], [group0, group1])
    np.testing.assert_allclose(replies[1].payload["group_loss"], [loss(0, 0.5), 0.0])
    state, log = method.server_round(state, replies, context(("one", "two")))
    np.testing.assert_allclose(state.weights, [0.75, 1.0])
    assert log["group_weight"] == [1.0, 1.0]
    r0, r1 = (group0 + loss(0, 0.5)) / 3, group1
    shift = 0.5 * (r0 - r1) / 2
    np.testing.assert_allclose(state.values["mu"], [0.75 + shift, 0.25 - shift])
    # Rows of group a weigh μ_a/ρ_a in the next round.
    plan = method.plan(method.broadcast(state, "one", context()), seen(ONE, [0.0] * 3), {})
    weights = [(0.75 + shift) / 0.75] * 2 + [(0.25 - shift) / 0.25]
    np.testing.assert_allclose(plan[0].sample_weight, weights)
    assert np.mean([*weights, weights[0]]) == pytest.approx(1.0)


def test_groups_that_no_participant_holds_keep_their_weight():
    method = FedMinMax(eta=1.0)
    three = held([1, 0], [0, 1], "three", values=4)
    four = held([1, 1], [2, 2], "four", values=4)
    state = method.init(np.zeros(2), enrolled(method, three, four))
    reply = replied(method, seen(three, [3.0, 3.0]), np.zeros(2), state)
    state, _ = method.server_round(state, [reply], context(("three",)))
    # Group 2 is absent, group 3 does not exist; the half of 0 and 1 goes to the worse one.
    np.testing.assert_allclose(state.values["mu"], [0.0, 0.5, 0.5, 0.0], atol=1e-12)
    assert np.isfinite(np.asarray(method.broadcast(state, "four", context()).payload["group_weight"])).all()
