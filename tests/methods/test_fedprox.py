"""FedProx and Ditto: plain gradient steps written out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from glocalfair.methods.base import Method
from glocalfair.methods.ditto import Ditto
from glocalfair.methods.fedprox import FedProx
from glocalfair.types import Federation, Floats
from tests.federations import alone, drawn, play, simulator, start


def gradient(federation: Federation, name: str, w: Floats) -> Floats:
    """Return the gradient of the mean loss on a client's training rows, by differences."""
    sim = simulator(Method(), federation)
    rows = federation.client(name).train
    y = federation.y[rows]

    def loss(at: Floats) -> float:
        s = sim.trainer.logits(at, rows)
        return float(np.mean(np.logaddexp(0, s) - y * s))

    step = 1e-6
    return np.array([(loss(w + e) - loss(w - e)) / (2 * step) for e in step * np.eye(len(w))])


@pytest.fixture(scope="module")
def lonely() -> tuple[Federation, str]:
    federation = drawn()
    name = federation.clients[0].name
    return alone(federation, name), name


def plain(rows: int) -> dict[str, float]:
    """Two full-batch steps of plain gradient descent."""
    return {"momentum": 0.0, "epochs": 2, "batch_size": rows, "lr": 0.2}


def test_two_steps_of_fedprox_by_hand(lonely):
    federation, name = lonely
    sim = simulator(FedProx(mu=0.7), federation, **plain(1000))
    w0 = start(sim).server.weights
    w1 = w0 - 0.2 * gradient(federation, name, w0)
    w2 = w1 - 0.2 * (gradient(federation, name, w1) + 0.7 * (w1 - w0))
    np.testing.assert_allclose(play(sim, 1)[0].server.weights, w2, atol=1e-8)


def test_two_rounds_of_ditto_by_hand(lonely):
    federation, name = lonely
    sim = simulator(Ditto(lam=0.7), federation, **plain(1000))
    w = v = start(sim).server.weights
    for _ in range(2):
        received = w
        for _ in range(2):
            w = w - 0.2 * gradient(federation, name, w)
            v = v - 0.2 * (gradient(federation, name, v) + 0.7 * (v - received))
    state, _ = play(sim, 2)
    np.testing.assert_allclose(state.server.weights, w, atol=1e-8)
    np.testing.assert_allclose(state.clients[name]["personal"], v, atol=1e-8)


def test_a_strong_pull_holds_the_personal_model_at_the_received_one():
    federation = drawn()
    away = []
    for lam in (0.0, 10.0):
        sim = simulator(Ditto(lam=lam), federation, momentum=0.0, epochs=20)
        state, _ = play(sim, 1)
        received = start(sim).server.weights
        away.append(max(np.linalg.norm(s["personal"] - received) for s in state.clients.values()))
    assert away[1] < away[0] / 2


def test_local_metrics_belong_to_the_personal_model():
    federation = drawn()
    sim = simulator(Ditto(lam=0.0, personal_epochs=20), federation)
    state, _ = play(sim, 2)
    _, local, names = sim.test_tables(state, state.server.weights)
    _, shared, _ = simulator(Method(), federation).test_tables(state, state.server.weights)
    for k, name in enumerate(names):
        client = federation.client(name)
        own = sim.trainer.logits(np.asarray(state.clients[name]["personal"]), client.test) > 0
        right = int((own == federation.y[client.test]).sum())
        table = local.counts[k].sum(axis=0)
        assert table[0, 0] + table[1, 1] == right
    assert (local.counts != shared.counts).any()
