"""A hostile client in a round of every method: it is named with the reason, and the model is that of the others."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from glocalfair import registry
from glocalfair.config import ServerConfig
from glocalfair.engines.checks import Expected, accept, unusable
from glocalfair.engines.simulator import Simulator
from glocalfair.methods.base import Method
from glocalfair.methods.fedavg import FedAvg
from glocalfair.runs import jsonable
from glocalfair.types import ClientInfo, ClientUpdate, ServerState
from tests.federations import drawn, play, simulator, start

from .conftest import Faults
from .hostility import ANY_METHOD, WITH_PAYLOAD, Change

METHODS = sorted(registry.methods())
FEDERATION = drawn(3)
CLIENTS = [client.name for client in FEDERATION.clients]
LIAR = CLIENTS[1]

each_method = pytest.mark.parametrize("name", METHODS)


def hostile(method: Method, change: Change, liars: tuple[str, ...]) -> Method:
    """Return the method with some clients' updates changed on their way out."""
    kind = type(method)

    def finish(self: Any, *given: Any) -> Any:
        update, state, told = kind.finish(self, *given)
        return (change(update) if update.client in liars else update), state, told

    subclass = dataclass(frozen=True)(type(f"Hostile{kind.__name__}", (kind,), {"finish": finish}))
    made = object.__new__(subclass)
    made.__dict__.update(method.__dict__)
    return made  # type: ignore[no-any-return]


def attacked(name: str, change: Change, liars: tuple[str, ...] = (LIAR,), **server: Any) -> Simulator:
    sim = simulator(hostile(registry.method(name), change, liars), FEDERATION)
    return replace(sim, server=ServerConfig(**server))


def lies(method: Method) -> dict[str, Change]:
    declared = {d.key for d in method.discloses() if not d.once} - {"weights", "examples"}
    return ANY_METHOD | (WITH_PAYLOAD if declared else {})


@each_method
def test_a_liar_is_named_and_the_others_go_on(name: str, faults: Faults) -> None:
    changes = dict(list(lies(registry.method(name)).items())[:: faults.number(2, 1)])
    honest = simulator(registry.method(name), FEDERATION)
    second, _ = play(honest, 1)
    context = honest.context(2)
    others = [u for u in honest.train_clients(second, context)[0] if u.client != LIAR]
    expected, _ = honest.method.server_round(second.server, others, context)
    for what, change in changes.items():
        state, record = attacked(name, change).step(second)
        assert record["rejected"], what
        assert all(isinstance(reason, str) and reason for reason in record["rejected"].values()), what
        used = set(record["server"]["coefficients"])
        assert LIAR not in used, what
        assert used == set(CLIENTS) - {LIAR}, what
        np.testing.assert_array_equal(state.server.weights, expected.weights, err_msg=what)
        assert len(json.dumps(jsonable(record["rejected"]), allow_nan=False)) < 1000, what
        assert np.isfinite(state.server.weights).all(), what
    faults.record("hostile update, every method", "rejected by name and reason, model of the others", len(changes))


@each_method
def test_when_everybody_lies_the_model_stays(name: str, faults: Faults) -> None:
    before = start(simulator(registry.method(name), FEDERATION))
    changes = {k: c for k, c in lies(registry.method(name)).items() if k not in ("step of 1e6", "step of 1e30")}
    changes = dict(list(changes.items())[:: faults.number(5, 1)])
    for what, change in changes.items():
        state, record = attacked(name, change, tuple(CLIENTS)).step(before)
        np.testing.assert_array_equal(state.server.weights, before.server.weights, err_msg=what)
        assert record["server"] == {} and record["rejected"], what
    faults.record("all updates of a round hostile", "model kept, round logged", len(changes))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@each_method
def test_the_largest_weights_that_pass_break_nothing(name: str, dtype: Any, faults: Faults) -> None:
    """With the bound on steps switched off, all clients send ±1e18."""
    sign = {client: 1.0 if i % 2 else -1.0 for i, client in enumerate(CLIENTS)}
    largest: Change = lambda u: replace(u, weights=np.full(len(u.weights), sign[u.client] * 1e18))  # noqa: E731
    sim = attacked(name, largest, tuple(CLIENTS), max_norm=0.0)
    state, record = replace(sim, run=replace(sim.run, dtype=dtype), server=ServerConfig(max_norm=0)).step(start(sim))
    assert not record["rejected"]
    assert np.isfinite(state.server.weights).all()
    faults.record("weights of ±1e18, the bound switched off", "finite model")


@each_method
def test_a_new_model_that_is_not_finite_is_never_taken(
    name: str, monkeypatch: pytest.MonkeyPatch, faults: Faults
) -> None:
    sim = simulator(registry.method(name), FEDERATION)
    before, _ = play(sim, 1)
    monkeypatch.setattr(type(sim.method), "combined", lambda self, old, *rest: old / np.zeros(len(old)))
    with np.errstate(all="ignore"):
        state, record = sim.step(before)
    np.testing.assert_array_equal(state.server.weights, before.server.weights)
    assert "not finite; the old model stays" in record["server"]["refused"]
    assert state.server is before.server
    faults.record("new global model not finite", "refused, old one kept, round logged")


def test_who_and_why_are_said() -> None:
    def reason(what: str) -> str:
        _, record = attacked("glocalfair", (ANY_METHOD | WITH_PAYLOAD)[what]).step(play_one())
        (text,) = record["rejected"].values()
        return str(text)

    def play_one() -> Any:
        return play(simulator(registry.method("glocalfair"), FEDERATION), 1)[0]

    size = FEDERATION.x.shape[1] * 4 + 4 + 4 + 1
    assert reason("one weight is NaN") == "1 weights are not finite"
    assert reason("one weight too many") == f"weights of shape ({size + 1},), expected ({size},)"
    assert reason("weights are None") == "weights of type NoneType, expected an array of floats"
    assert "examples, enrolled with" in reason("negative examples")
    assert reason("one payload too many") == "a payload of ['surprise', 'totals'], expected ['totals']"
    assert reason("payload of words") == "'totals' of type str, expected numbers"
    assert "'totals' reaches from" in reason("payload negative")
    assert "the limit is" in reason("step of 1e6")
    assert reason("unknown client") == "it was not asked to train in this round"
    _, record = attacked("glocalfair", lambda update: replace(update, client=CLIENTS[0])).step(play_one())
    assert record["rejected"] == {CLIENTS[0]: "2 updates under this name"}


def test_totals_that_contradict_each_other() -> None:
    method, honest = registry.method("glocalfair"), [2.0, 5.0, 1.0, 5.0]
    expected = Expected(method)
    for totals in ([6.0, 5.0, 1.0, 5.0], [2.0, 5.0, 6.0, 5.0], [2.0, 5.0, 1.0, 4.0]):
        update = ClientUpdate("a", np.zeros(2), 10, {"totals": np.array(totals)})
        _, rejected = accept([update], np.zeros(2), {"a": 10}, expected)
        assert "do not fit 10 examples" in rejected["a"]
    update = ClientUpdate("a", np.zeros(2), 10, {"totals": np.array(honest)})
    assert accept([update], np.zeros(2), {"a": 10}, expected)[1] == {}
    counts = {"group_size": np.array([3.0, 2.0]), "group_positive": np.array([1.0, 3.0]), "correct": 4}
    _, rejected = accept(
        [ClientUpdate("a", np.zeros(2), 10, counts)], np.zeros(2), {"a": 10}, Expected(registry.method("fairfed"), 2)
    )
    assert "exceeds" in rejected["a"]


def liars_shares(name: str, change: Change, **values: Any) -> list[float]:
    method = hostile(registry.method(name, values), change, (LIAR,))
    _, records = play(simulator(method, FEDERATION), 3)
    return [record["server"]["coefficients"][LIAR] for record in records]


def honest_shares(name: str, **values: Any) -> list[float]:
    return liars_shares(name, lambda update: update, **values)


def test_what_the_security_page_says_of_liars() -> None:
    share = honest_shares("fedavg")[0]

    def loss(value: float) -> Change:
        return lambda update: replace(update, payload={"loss": value})

    assert liars_shares("afl", loss(1e12))[1] > 0.999
    assert liars_shares("gifair", loss(1e12)) == pytest.approx([share] * 3)
    assert liars_shares("qffl", loss(1e12), q=1.0)[0] > 0.999
    assert liars_shares("qffl", loss(1e3), q=0.1)[0] > 1.2 * share
    # A Gini coefficient of 0 is worth e^(γ G) at most, G that of the others.
    flat: Change = lambda update: replace(update, weights=np.sign(update.weights) * np.abs(update.weights).mean())  # noqa: E731
    for name in ("glocalfair", "glocalfair-paper"):
        gained = np.array(liars_shares(name, flat)) / share
        assert (gained > 1).all() and (gained < np.exp(0.6 * 0.6)).all()


def test_nobody_came() -> None:
    assert accept([], np.zeros(2), {}, Expected(FedAvg())) == ([], {})


@pytest.mark.parametrize("examples", [0, -3, 10**10, 2.0, True, "5", None])
def test_enrolment_with_a_wrong_count(examples: Any) -> None:
    assert "examples" in str(Expected(FedAvg()).enrolment(ClientInfo(examples)))
    assert Expected(FedAvg()).enrolment(ClientInfo(5)) is None


def test_enrolment_with_a_wrong_payload() -> None:
    expected = Expected(registry.method("fedfb"), 2)
    assert expected.enrolment(ClientInfo(5, {"cell_size": np.array([[1.0, 1.0], [2.0, 1.0]])})) is None
    for wrong in ({}, {"cell_size": np.ones(2)}, {"cell_size": np.full((2, 2), 1e9)}):
        assert "cell_size" in str(expected.enrolment(ClientInfo(5, wrong)))


def test_a_state_that_is_not_finite_is_refused() -> None:
    assert unusable(ServerState(np.ones(2), {"loss": np.array([np.nan, 1.0]), "clients": "[]"})) is None
    assert "2 weights" in str(unusable(ServerState(np.array([np.nan, np.inf, 0.0]))))
    assert "lam" in str(unusable(ServerState(np.ones(2), {"lam": np.array([np.inf])})))


def test_steps_are_bounded_by_the_median_and_by_the_model() -> None:
    old = np.zeros(2)

    def rejected(*steps: float, max_norm: float = 10.0) -> list[str]:
        updates = [ClientUpdate(f"c{i}", np.array([step, 0.0]), 1) for i, step in enumerate(steps)]
        asked = {update.client: 1 for update in updates}
        return sorted(accept(updates, old, asked, Expected(FedAvg()), max_norm)[1])

    assert rejected(0.1, 0.1, 0.9) == []
    assert rejected(0.1, 0.1, 1.1) == ["c2"]
    assert rejected(0.0, 0.0, 1.1) == [], "if most did not move, only the model is a measure"
    assert rejected(0.1, 11.0) == ["c1"]
    assert rejected(11.0) == ["c0"]
    assert rejected(0.1, 0.1, 1e17, max_norm=0.0) == []


@pytest.mark.parametrize("server", [{"combine": "median"}, {"combine": "trimmed-mean", "trim": 0.3}, {"clip": 1.0}])
@each_method
def test_robust_options_work_with_every_method(name: str, server: dict[str, Any]) -> None:
    sim = replace(simulator(registry.method(name), FEDERATION), server=ServerConfig(**server))
    state, records = play(sim, 3)
    assert np.isfinite(state.server.weights).all()
    plain, _ = play(simulator(registry.method(name), FEDERATION), 3)
    assert not np.array_equal(state.server.weights, plain.server.weights)
    for record in records:
        assert not record["rejected"] and "refused" not in record["server"]
        assert sum(record["server"]["coefficients"].values()) <= 1 + 1e-9
        assert ("clipped" in record["server"]) == ("clip" in server)


def test_the_literal_form_combines_too() -> None:
    method = registry.method("glocalfair", {"cluster_mass": "literal", "gamma": 0.0, "constraints": ()})
    sim = replace(simulator(method, FEDERATION), server=ServerConfig(combine="median"))
    state, records = play(sim, 1)
    share = np.array(list(records[0]["server"]["coefficients"].values()))
    before = start(sim)
    updates = sim.train_clients(before, sim.context(1))[0]
    from glocalfair.aggregation.robust import trimmed_mean

    middle = trimmed_mean(np.stack([u.weights for u in updates]), share / share.sum(), 0.5)
    old = before.server.weights
    np.testing.assert_allclose(state.server.weights, old + share.sum() * (middle - old), atol=1e-12)
