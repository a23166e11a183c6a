"""The same seed gives the same result, for every method: however many workers, whoever trains with whom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glocalfair import models, registry
from glocalfair.engines.simulator import Simulator
from glocalfair.local.network import ModuleNetwork
from tests.contract.test_methods import assert_same, each_case, each_method
from tests.federations import awkward, drawn, play, simulator
from tests.reliability.conftest import Faults

FLOAT64, FLOAT32 = 1e-10, 1e-4
"""How far two ways to compute the same may be apart after four rounds."""
FEDERATION = drawn(3, clients=7)


def made(name: str, values: dict[str, Any] | None = None, **run: Any) -> Simulator:
    sim = simulator(registry.method(name, values or {}), FEDERATION, participation=0.8)
    return replace(sim, run=replace(sim.run, **run))


@each_method
def test_workers_on_several_groups(name: str, faults: Faults) -> None:
    """Two clients to a group, so that there is something to share out."""
    one = play(made(name, cohort=2), 4)[0]
    for workers in (2, 3):
        assert_same(one, play(made(name, cohort=2, workers=workers), 4)[0])
    faults.record("other number of workers", "bit-equal", 2)


@each_method
def test_order_of_clients(name: str, faults: Faults) -> None:
    sim = made(name, cohort=2)
    one = play(sim, 4)[0]
    draw = np.random.default_rng(0)
    orders = faults.number(2, 10)
    for _ in range(orders):
        order = draw.permutation(len(FEDERATION.clients))
        shuffled = replace(FEDERATION, clients=tuple(FEDERATION.clients[i] for i in order))
        assert_same(one, play(replace(sim, federation=shuffled), 4)[0])
    faults.record("other order of clients", "bit-equal", orders)


@each_case
def test_together_or_one_by_one(name: str, values: dict[str, Any]) -> None:
    together, alone = (play(made(name, values, cohort=cohort), 4)[0] for cohort in (64, 1))
    np.testing.assert_allclose(together.server.weights, alone.server.weights, rtol=0, atol=FLOAT64)
    for client, state in together.clients.items():
        for key, value in state.items():
            np.testing.assert_allclose(value, alone.clients[client][key], rtol=FLOAT64, atol=FLOAT64)


@each_method
def test_together_or_one_by_one_in_float32(name: str) -> None:
    together, alone = (play(made(name, cohort=cohort, dtype="float32"), 4)[0] for cohort in (64, 1))
    assert together.server.weights.dtype == np.float32
    np.testing.assert_allclose(together.server.weights, alone.server.weights, rtol=0, atol=FLOAT32)


@pytest.mark.parametrize("place", ["drawn", "awkward"])
@each_method
def test_gradients_by_hand_or_automatic(name: str, place: str) -> None:
    federation = FEDERATION if place == "drawn" else awkward(3)
    by_hand = simulator(registry.method(name), federation)
    module = models.build("mlp", federation.x.shape[1], 0, (4,)).double()
    automatic = replace(by_hand, network=ModuleNetwork(module))
    one, two = play(by_hand, 4)[0], play(automatic, 4)[0]
    np.testing.assert_allclose(one.server.weights, two.server.weights, rtol=0, atol=FLOAT64)
