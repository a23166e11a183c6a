"""Who computes the Gini coefficient changes what is sent, not what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glocalfair import registry
from glocalfair.config import RunConfig, TrainConfig
from glocalfair.engines.simulator import Simulator
from glocalfair.local.network import network
from glocalfair.methods.base import Method
from glocalfair.types import ServerState
from tests.federations import awkward, context, drawn, play, sent, simulator

CASES: list[dict[str, Any]] = [
    {},
    {"gini_of": "update", "gamma": 5.0},
    {"gini_scale": "standardised", "gamma": 2.0, "clusters": 2},
    {"cluster_mass": "literal", "gini_of": "update"},
]


def pair(**values: Any) -> tuple[Method, Method]:
    made = [registry.method("glocalfair", {**values, "gini_by": by}) for by in ("server", "client")]
    return made[0], made[1]


@pytest.mark.parametrize("values", CASES, ids=str)
@pytest.mark.parametrize("federation", [drawn(3), awkward()], ids=["drawn", "awkward"])
def test_the_same_model_bit_for_bit(federation: Any, values: dict[str, Any]) -> None:
    (one, logs), (two, others) = (play(simulator(m, federation, participation=0.75), 4) for m in pair(**values))
    np.testing.assert_array_equal(one.server.weights, two.server.weights)
    for log, other in zip(logs, others, strict=True):
        assert {k: v for k, v in log["server"].items() if k != "lorenz"} == other["server"]


def test_batchnorm_statistics_do_not_count_on_the_client_either() -> None:
    import torch
    from torch import nn

    federation = drawn()
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(federation.x.shape[1], 3), nn.BatchNorm1d(3), nn.Linear(3, 1), nn.Flatten(0))
    models = []
    for method in pair(gamma=5.0):
        net = network(module)
        assert net.layout.trainable < net.layout.size
        sim = Simulator(federation, net, method, TrainConfig(rounds=2), RunConfig(dtype="float64"))
        models.append(play(sim, 2, sim.start(net.layout.flatten(module).numpy()))[0].server.weights)
    np.testing.assert_array_equal(*models)


def test_it_is_declared_and_it_is_all_that_is_added() -> None:
    for values, more in (({"reference": "local"}, set()), ({}, {"totals"})):
        method = pair(**values)[1]
        assert {d.key for d in method.discloses()} == {"weights", "examples", "gini", *more}
        sim = simulator(method, drawn())
        for update in sim.train_clients(play(sim, 1)[0], sim.context(2))[0]:
            assert set(update.payload) == {"gini", *more}
            assert type(update.payload["gini"]) is float


def test_the_server_needs_no_weights_to_weigh_clients() -> None:
    method = registry.method("glocalfair", {"gini_by": "client", "reference": "local", "gamma": 2.0})
    updates = [sent("a", [], 10, {"gini": 0.2}), sent("b", [], 30, {"gini": 0.5})]
    share, log = method.coefficients(ServerState(np.zeros(3)), updates, context(("a", "b")))
    mass = np.array([10 * np.exp(-0.4), 30 * np.exp(-1.0)])
    if log["cluster"]["a"] == log["cluster"]["b"]:
        mass = np.array([10.0, 30.0])
    np.testing.assert_allclose(share, mass / mass.sum())


def test_a_client_that_invents_its_coefficient_gains_a_bounded_factor() -> None:
    method = registry.method("glocalfair", {"gini_by": "client", "reference": "local", "gamma": 0.6, "clusters": 2})

    def share(invented: float) -> float:
        updates = [sent("a", [], 10, {"gini": invented}), *(sent(n, [], 10, {"gini": 0.5}) for n in "bc")]
        return float(method.coefficients(ServerState(np.zeros(3)), updates, context(tuple("abc")))[0][0])

    odds = [share(g) / (1 - share(g)) for g in (-1e6, 0.0, 1.0, 1e6)]
    assert odds[0] == odds[1] > odds[2] == odds[3]
    assert odds[0] / odds[2] == pytest.approx(np.exp(0.6))
