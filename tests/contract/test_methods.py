"""What every method must keep, whoever wrote it: a new file in `glocalfair.methods` is tested here by itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glocalfair import registry
from glocalfair.aggregation.average import weighted_average
from glocalfair.engines.simulator import Simulator
from glocalfair.engines.state import SimulationState
from glocalfair.runs import RunDirectory, jsonable
from glocalfair.types import Attribute, Client, Federation, ServerState
from tests.federations import alone, awkward, drawn, play, simulator, start

METHODS = sorted(registry.methods())

NEUTRAL: dict[str, list[dict[str, Any]]] = {
    "afl": [{"eta": 0.0}],
    "ditto": [{}, {"lam": 0.5, "personal_epochs": 2}],
    "fairfed": [{"beta": 0.0, "local_debias": "none", "variant": v} for v in ("additive", "exp")],
    "fedavg": [{}],
    "fedfb": [{"alpha": 0.0, "notion": n, "step": s} for n in ("eqodds", "eo", "dp") for s in ("decay", "normalised")],
    "fedminmax": [{"eta": 0.0}],
    "fedprox": [{"mu": 0.0}],
    "gifair": [{"c": 0.0}],
    "glocalfair": [{"gamma": 0.0, "constraints": ()}],
    "glocalfair-paper": [{"gamma": 0.0, "constraints": ()}],
    "qffl": [{"q": 0.0, "L": size} for size in ("auto", "paper", 3.0)],
}
"""The settings at which a method has no strength and must be FedAvg."""

NEVER_NEUTRAL = {"reweighing": "its weights follow from the data; it has no strength to set to 0"}

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "fairfed": [{"metric": "spd"}, {"variant": "exp"}, {"attribute": "intersection"}, {"beta": 50.0}],
    "fedfb": [
        {"notion": "dp"},
        {"notion": "eo", "step": "normalised", "alpha": 1.0},
        {"alpha": 2.0, "step": "normalised"},
        {"attribute": "b"},
        {"attribute": "intersection", "notion": "dp", "alpha": 2.0},
    ],
    "glocalfair": [
        {"reference": "local", "warmup": 0.0},
        {"reference": "targets", "targets": [0.4, 0.3, 0.5], "warmup": 0.0, "constraints": ["positive_rate", "fpr"]},
        {"mode": "absolute", "tau_fnr": 0.1, "tau_fpr": 0.1, "warmup": 0.0, "clip": 0.0},
        {"dual": "game", "warmup": 0.0},
        {"gini_of": "update", "gini_scale": "standardised", "gamma": 5.0, "cluster_mass": "equal"},
        {"gini_by": "client", "gini_of": "update"},
    ],
    "glocalfair-paper": [
        {"proxy": "hinge", "iterate": "tfco", "theta_radius": 5.0, "dual_radius": 2.0},
        {"solver": "proxy_lagrangian", "iterate": "random"},
        {"solver": "proxy_lagrangian", "update": "additive", "iterate": "random", "game_lr": 10.0, "window": 1},
        {"clusters": 2, "snapshots": 1},
    ],
    "fedminmax": [{"attribute": "intersection", "eta": 1.0}],
    "afl": [{"eta": 2.0}],
    "qffl": [{"q": 5.0}, {"q": 1.0, "L": "paper"}],
    "gifair": [{"c": 0.99}],
    "reweighing": [{"attribute": "intersection"}],
}
"""Settings that take other paths through a method, beside its defaults."""

CASES = [(name, values) for name in METHODS for values in [{}, *VARIANTS.get(name, [])]]
FEDERATIONS = {"two-valued": drawn(2), "three-valued": drawn(3), "awkward": awkward(2), "awkward-three": awkward(3)}

each_method = pytest.mark.parametrize("name", METHODS)
each_case = pytest.mark.parametrize(("name", "values"), CASES, ids=lambda v: v if isinstance(v, str) else str(v))


def make(name: str, values: dict[str, Any], federation: Federation, **train: Any) -> Simulator:
    return simulator(registry.method(name, values), federation, **train)


def assert_same(one: SimulationState, two: SimulationState) -> None:
    """Compare two states bit by bit."""
    np.testing.assert_array_equal(one.server.weights, two.server.weights)
    pairs = [(one.server.values, two.server.values)]
    pairs += [(one.clients.get(c, {}), two.clients.get(c, {})) for c in {*one.clients, *two.clients}]
    for mine, its in pairs:
        assert set(mine) == set(its)
        for key, value in mine.items():
            np.testing.assert_array_equal(value, its[key])
            assert isinstance(value, np.ndarray) == isinstance(its[key], np.ndarray)


@pytest.mark.parametrize("place", ["three-valued", "awkward-three"])
@each_case
def test_many_plans_are_the_plans_of_each(
    name: str, values: dict[str, Any], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client's plan is the same, bit by bit, whoever is planned for beside it."""
    sim = make(name, values, FEDERATIONS[place], participation=0.75)
    whole = play(sim, 3)[0]
    together = type(sim.method).plans
    monkeypatch.setattr(type(sim.method), "plans", lambda self, given: [together(self, [each])[0] for each in given])
    assert_same(play(sim, 3)[0], whole)


@pytest.mark.parametrize("place", FEDERATIONS)
@each_case
def test_three_rounds_keep_the_rules(name: str, values: dict[str, Any], place: str) -> None:
    sim = make(name, values, FEDERATIONS[place], participation=0.75)
    state = start(sim)
    for _ in range(3):
        before = state.server.weights
        context = sim.context(state.round + 1)
        updates = sim.train_clients(state, context)[0]
        state, record = sim.step(state)
        assert not record["rejected"]
        share = record["server"]["coefficients"]
        assert sorted(share) == list(context.participants)
        shares = np.array([share[update.client] for update in updates])
        assert (shares >= 0).all() and shares.sum() <= 1 + 1e-9
        # The log says how the new model came about: what is missing to 1 is the old model.
        mixed = weighted_average([update.weights for update in updates], shares, before)
        np.testing.assert_allclose(state.server.weights, mixed, atol=1e-12)
        assert np.isfinite(state.server.weights).all()
        json.dumps(jsonable(record), allow_nan=False)


@pytest.mark.parametrize("place", FEDERATIONS)
@each_case
def test_clients_send_what_is_declared(name: str, values: dict[str, Any], place: str) -> None:
    sim = make(name, values, FEDERATIONS[place])
    declared = sim.method.discloses()
    once = {item.key for item in declared if item.once}
    always = {item.key for item in declared if not item.once} - {"weights", "examples"}
    assert len({item.key for item in declared}) == len(declared)
    assert {"weights", "examples"} <= {item.key for item in declared}
    assert all(item.text for item in declared)
    assert all(set(info.payload) == once for info in sim.infos.values())
    state, _ = play(sim, 1)
    for update in sim.train_clients(state, sim.context(2))[0]:
        assert set(update.payload) == always


@each_case
def test_saved_state_goes_on_as_if_never_stopped(name: str, values: dict[str, Any], tmp_path: Path) -> None:
    sim = make(name, values, awkward(3), participation=0.5)
    half, _ = play(sim, 2)
    directory = RunDirectory(tmp_path)
    directory.save_state(half)
    loaded = directory.load_state()
    assert_same(half, loaded)
    straight, records = play(sim, 2, half)
    resumed, again = play(sim, 2, loaded)
    assert_same(straight, resumed)
    assert json.dumps(jsonable(records)) == json.dumps(jsonable(again))


@each_case
def test_payloads_survive_a_file(name: str, values: dict[str, Any], tmp_path: Path) -> None:
    sim = make(name, values, awkward(3))
    state, _ = play(sim, 1)
    context = sim.context(2)
    payloads = [info.payload for info in sim.infos.values()]
    payloads += [sim.method.broadcast(state.server, client, context).payload for client in context.participants]
    payloads += [update.payload for update in sim.train_clients(state, context)[0]]
    directory = RunDirectory(tmp_path)
    for payload in payloads:
        sent = SimulationState(1, ServerState(np.zeros(1), payload))
        directory.save_state(sent)
        assert_same(sent, directory.load_state())


@pytest.mark.parametrize("client", [c.name for c in awkward().clients])
@each_method
def test_a_client_alone(name: str, client: str) -> None:
    state, records = play(make(name, {}, alone(awkward(), client)), 3)
    assert np.isfinite(state.server.weights).all()
    assert not any(record["rejected"] for record in records)


@each_method
def test_order_of_clients_and_workers_do_not_matter(name: str) -> None:
    f = awkward(3)
    sim = make(name, {}, f, participation=0.75)
    one = play(sim, 3)[0]
    backwards = make(name, {}, replace(f, clients=f.clients[::-1]), participation=0.75)
    assert_same(one, play(backwards, 3)[0])
    many = replace(make(name, {}, f, participation=0.75), run=replace(sim.run, workers=3))
    assert_same(one, play(many, 3)[0])


@each_method
def test_enrolment_in_any_order(name: str) -> None:
    sim = make(name, {}, drawn())
    weights = np.zeros(sim.network.layout.size)
    there = sim.method.init(weights, sim.infos)
    back = sim.method.init(weights, dict(reversed(sim.infos.items())))
    assert_same(SimulationState(0, there), SimulationState(0, back))


@each_method
def test_lost_updates_and_unseen_clients(name: str) -> None:
    state, records = play(make(name, {}, drawn(3, clients=6), participation=0.34, dropout=0.4), 6)
    assert any(record["failed"] for record in records)
    assert np.isfinite(state.server.weights).all()


@each_method
def test_everybody_is_described(name: str) -> None:
    method = registry.method(name)
    assert method.summary and method.citation
    assert method.attributes in ("none", "single", "joint")
    assert (method.attributes == "single") == hasattr(method, "attribute")


@each_method
def test_no_strength_is_fedavg(name: str) -> None:
    if name in NEVER_NEUTRAL:
        return
    assert name in NEUTRAL, (
        f"Add '{name}' to NEUTRAL in {Path(__file__).name} with the settings that make it FedAvg, "
        "or to NEVER_NEUTRAL with the reason why there are none."
    )
    for f, train in ((drawn(3, clients=6), {"participation": 0.5}), (awkward(), {"momentum": 0.0, "epochs": 2})):
        plain = play(make("fedavg", {}, f, **train), 5)[0].server.weights
        for values in NEUTRAL[name]:
            weights = play(make(name, values, f, **train), 5)[0].server.weights
            np.testing.assert_allclose(weights, plain, rtol=0, atol=1e-12, err_msg=str(values))


def test_the_tables_name_methods_that_exist() -> None:
    assert {*NEUTRAL, *NEVER_NEUTRAL, *VARIANTS} <= set(METHODS)
    assert not set(NEUTRAL) & set(NEVER_NEUTRAL)


@st.composite
def random_federations(draw: st.DrawFn) -> Federation:
    """Draw tiny clients without mercy: any sizes, labels and groups, and wild inputs."""
    sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=5))
    values = draw(st.integers(2, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = sum(sizes)
    share = st.sampled_from([0.0, 0.1, 0.5, 1.0])
    y = (rng.random(rows) < draw(share)).astype(int)
    groups = np.where(rng.random((rows, 2)) < draw(share), rng.integers(values, size=(rows, 2)), 0)
    x = rng.standard_normal((rows, 3)) * draw(st.sampled_from([0.0, 1.0, 30.0]))
    edges = np.cumsum([0, *sizes])
    none = np.arange(0)
    clients = tuple(
        Client(f"c{k}", np.arange(edges[k], edges[k + 1]), none, none) for k in rng.permutation(len(sizes)).tolist()
    )
    attributes = tuple(Attribute(n, tuple(f"{n}{i}" for i in range(values))) for n in "ab")
    return Federation("random", x, y, groups, attributes, clients, none)


@settings(max_examples=15, deadline=None)
@given(
    federation=random_federations(),
    participation=st.sampled_from([0.3, 1.0]),
    scale=st.sampled_from([0.1, 1.0, 10.0]),
    lr=st.sampled_from([1e-3, 0.1]),
)
@each_case
def test_random_rounds_keep_the_rules(
    name: str, values: dict[str, Any], federation: Federation, participation: float, scale: float, lr: float
) -> None:
    sim = make(name, values, federation, participation=participation, lr=lr, batch_size=8)
    state = start(sim, scale)
    for _ in range(3):
        state, record = sim.step(state)
        if not set(record["participants"]) - set(record["rejected"]):
            continue
        share = np.array(list(record["server"]["coefficients"].values()))
        assert (share >= 0).all() and share.sum() <= 1 + 1e-9
        assert np.isfinite(state.server.weights).all()
