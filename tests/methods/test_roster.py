"""The server's memory of clients: any names, and a hundred thousand of them."""

from __future__ import annotations

import numpy as np
import pytest

from glocalfair.methods.roster import _places, place, roster
from glocalfair.registry import method
from glocalfair.types import ClientInfo, ClientUpdate, ServerState
from tests.federations import context


def test_names_may_hold_anything():
    names = ['a"b', "ü,b", "x\x1fy", "", "z\n", "[]"]
    values, examples = roster({name: ClientInfo(k + 1) for k, name in enumerate(names)})
    state = ServerState(np.zeros(1), values)
    assert [examples[place(state, name)] for name in names] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("name", ["gifair", "afl", "fairfed", "fedfb", "fedminmax"])
def test_a_hundred_thousand_clients(name):
    chosen = method(name)
    names = [f"client-{k:06d}" for k in range(100_000)]
    once = {"cell_size": np.ones((2, 2)), "group_size": np.ones(2)}
    infos = dict.fromkeys(names, ClientInfo(4, once))
    payload = {
        "loss": 0.5,
        "group_size": np.ones(2),
        "group_positive": np.array([0.0, 1.0]),
        "correct": 2,
        "cell_loss": np.array([[0.1, 0.2], [0.3, 0.4]]),
        "group_loss": np.array([0.5, 0.6]),
    }
    _places.cache_clear()
    state = chosen.init(np.zeros(3), infos)
    participants = tuple(names[::100])
    round_ = context(participants, 1, 3)
    for client in participants:
        chosen.broadcast(state, client, round_)
    updates = [ClientUpdate(client, np.ones(3), 4, payload) for client in participants]
    state, _ = chosen.server_round(state, updates, round_)
    # A loop over clients inside a loop over clients would need minutes.
    assert _places.cache_info().misses == 1
    np.testing.assert_allclose(state.weights, 1.0)
    assert not any(isinstance(value, dict | list | tuple) for value in state.values.values())
