"""Clients that have almost nothing to learn from, and training that goes wrong: finite figures, or said at once."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glocalfair import registry
from glocalfair.api import DivergenceWarning, train
from glocalfair.engines.divergence import divergence
from glocalfair.experiment import Experiment
from glocalfair.runs import RunDirectory
from glocalfair.types import Client, ClientUpdate, Federation
from tests.cli.invoke import SMALL, glocalfair
from tests.contract.test_methods import METHODS, each_method
from tests.federations import awkward, drawn, play, simulator, start
from tests.reliability.conftest import Faults

KINDS = ("one row", "one class", "one group", "constant features", "equal rows", "huge features", "tiny features")


@st.composite
def degenerate(draw: st.DrawFn) -> Federation:
    """Draw a federation in which every client has something wrong with it."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    base = awkward(3)
    sizes = [1 if kind == "one row" else int(rng.integers(2, 12)) for kind in kinds]
    rows, edges = sum(sizes), np.cumsum([0, *sizes])
    x, y = rng.standard_normal((rows, 4)), rng.integers(2, size=rows)
    groups = rng.integers(3, size=(rows, 2))
    clients = []
    for k, kind in enumerate(kinds):
        own = slice(edges[k], edges[k + 1])
        if kind == "one class":
            y[own] = k % 2
        elif kind == "one group":
            groups[own] = 1
        elif kind in ("constant features", "equal rows"):
            x[own] = 0.0 if kind == "constant features" else x[own][0]
        elif kind.endswith("features"):
            x[own] *= 1e4 if kind == "huge features" else 1e-30
        part = np.arange(own.start, own.stop)
        # Some clients have rows for training alone, some for everything.
        cut = len(part) if draw(st.booleans()) else max(1, len(part) // 2)
        clients.append(Client(f"c{k}", part[:cut], part[cut:][::2], part[cut:][1::2]))
    return Federation("degenerate", x, y, groups, base.attributes, tuple(clients), np.arange(rows))


def figures(value: Any) -> list[float]:
    """Return all numbers in a nested value."""
    if isinstance(value, dict):
        return [number for inner in value.values() for number in figures(inner)]
    if isinstance(value, list | tuple | np.ndarray):
        return [number for inner in value for number in figures(inner)]
    return [float(value)] if isinstance(value, int | float | np.number) else []


@settings(max_examples=10)
@given(federation=degenerate(), data=st.data())
@each_method
def test_losses_and_rates_of_degenerate_clients(name: str, federation: Federation, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    sim = simulator(registry.method(name), federation, lr=0.01, batch_size=4)
    sim = replace(sim, run=replace(sim.run, dtype=dtype))
    state, records = play(sim, 3)
    assert np.isfinite(state.server.weights).all()
    for record in records:
        assert not record["rejected"] or "step of length" in str(record["rejected"])
        assert np.isfinite(record["loss"])
        validation = record.get("validation", {})
        assert np.isfinite([validation[key] for key in validation if key != "eod"]).all()
        # A gap that does not exist is NaN; nothing is ever infinite, and no rate leaves [0, 1].
        assert not np.isinf(figures(validation)).any()
        assert all(0 <= gap <= 1 for gap in figures(validation.get("eod", {})) if not np.isnan(gap))
        assert not np.isinf(figures(record["server"])).any()


def test_counts_of_degenerate_federations(faults: Faults) -> None:
    """The same examples once more, counted."""
    examples = faults.number(5, 100)

    @settings(max_examples=examples, database=None)
    @given(federation=degenerate())
    def check(federation: Federation) -> None:
        for name in METHODS:
            state, records = play(simulator(registry.method(name), federation, lr=0.01, batch_size=4), 1)
            assert np.isfinite(state.server.weights).all() and np.isfinite(records[0]["loss"])
            tried.append(name)

    tried: list[str] = []
    check()
    faults.record("federation of degenerate clients, one method each", "all losses and rates finite", len(tried))


def diverging(name: str, **train_settings: Any) -> Any:
    return simulator(registry.method(name), drawn(3, clients=6), **{"lr": 1e6, "rounds": 4, **train_settings})


@each_method
def test_divergence_is_said_in_its_round_and_the_last_good_model_kept(name: str, faults: Faults) -> None:
    for settings_ in ({}, {"batch_size": 1000}, {"optimizer": "adam"}):
        sim = diverging(name, **settings_)
        first = start(sim)
        state, record = sim.step(first)
        assert state.diverged and record["diverged"] == state.diverged, settings_
        np.testing.assert_array_equal(state.server.weights, first.server.weights)
        assert sim.finished(state)
        assert np.isfinite(record["validation"]["loss"])
        np.testing.assert_array_equal(sim.final_weights(state), first.server.weights)
        faults.record("training with a learning rate of 10⁶", "said in its round, last good model kept")


@each_method
def test_usual_training_does_not_diverge(name: str) -> None:
    _, records = play(simulator(registry.method(name), drawn(3, clients=6)), 4)
    assert not any("diverged" in record for record in records)


def test_the_last_good_model_is_the_one_before() -> None:
    """The learning rate explodes in the middle of a run, in the rounds that are averaged."""
    sim = simulator(registry.method("fedavg"), drawn(), rounds=6, average_last=4)
    good, _ = play(sim, 3)
    wild = replace(sim, train=replace(sim.train, lr=1e7))
    state, record = wild.step(good)
    assert record["diverged"] and state.round == 4
    np.testing.assert_array_equal(wild.final_weights(state), good.server.weights)


def test_one_client_that_blows_up_does_not_stop_the_others() -> None:
    f = drawn(2, clients=5)
    x = f.x.astype(np.float64)
    x[f.clients[0].train] *= 1e150
    sim = simulator(registry.method("fedavg"), replace(f, x=x), lr=0.1)
    state, records = play(sim, 3)
    assert not state.diverged
    assert all(set(record["rejected"]) == {f.clients[0].name} for record in records)
    assert all(np.isfinite(record["loss"]) for record in records)


def test_one_huge_update_is_no_majority() -> None:
    def update(name: str, size: float) -> ClientUpdate:
        return ClientUpdate(name, np.full(3, size), 5, {})

    losses = {"a": 0.5, "b": 0.5, "c": 1e9}
    one = [update("a", 1), update("b", 1), update("c", np.nan)]
    assert divergence(one, losses, np.ones(3), 0.5, 2) == ""
    two = [update("a", 1e9), update("b", 1), update("c", np.nan)]
    assert divergence(two, losses, np.ones(3), 0.5, 2).startswith("the training of 2 of 3 clients blew up")
    # A lone participant of many clients says nothing about the others.
    assert divergence([update("a", np.inf)], {"a": np.nan}, np.ones(3), None, 2) == ""
    assert divergence([update("a", np.inf)], {"a": np.nan}, np.ones(3), None, 1)
    assert "weight of 2e+04" in divergence([], {}, np.array([1.0, -2e4]), None, 2)
    assert "validation loss of nan" in divergence([], {}, np.ones(1), float("nan"), 2)


@pytest.mark.parametrize("blown", list(product((False, True), repeat=5)))
def test_whoever_comes_first_all_that_blew_up_are_counted(blown: tuple[bool, ...]) -> None:
    updates = [ClientUpdate(f"c{k}", np.full(3, 1e9 if lost else 1.0), 1) for k, lost in enumerate(blown)]
    said = divergence(updates, dict.fromkeys("abc", 0.5), np.ones(3), 0.5, 2)
    expected = f"the training of {sum(blown)} of 5 clients blew up (largest loss 0.5)"
    assert said == (expected if sum(blown) > 2 else "")


def test_the_command_line_says_it_and_marks_the_result(tmp_path: Path) -> None:
    arguments = ["run", *SMALL, "--rounds", 5, "--set", "train.lr=1e6", "--output"]
    done = glocalfair(*arguments, tmp_path / "loud")
    assert done.exit_code == 0
    flat = " ".join(done.stdout.split())
    assert "Warning: Training diverged in round 1: " in flat
    assert "Try a smaller train.lr (now 1e+06)" in flat
    quiet = glocalfair(*arguments, tmp_path / "quiet", "--json")
    assert quiet.stderr.startswith("Warning: Training diverged in round 1: ") and quiet.stderr.count("\n") == 1
    result = json.loads(quiet.stdout)
    assert result["diverged"]["round"] == result["rounds"] == 1
    assert "diverged" in RunDirectory.open(tmp_path / "quiet").load_rounds()[-1]


def test_a_diverged_run_ends_the_same_after_a_kill(tmp_path: Path) -> None:
    """The verdict is part of the checkpoint: what was killed before its result still ends there."""
    arguments = ["run", *SMALL, "--rounds", 5, "--set", "train.lr=1e6", "--json", "--output", tmp_path / "run"]
    whole = json.loads(glocalfair(*arguments).stdout)
    directory = RunDirectory.open(tmp_path / "run")
    model = directory.model.read_bytes()
    directory.result.unlink()
    directory.model.unlink()
    again = json.loads(glocalfair("run", "--resume", tmp_path / "run", "--json").stdout)
    assert again["diverged"] == whole["diverged"]
    assert directory.model.read_bytes() == model


def test_python_users_are_warned() -> None:
    with pytest.warns(DivergenceWarning, match="diverged in round 1"):
        result = train(drawn(), "fedavg", rounds=3, lr=1e6, progress=False)
    assert result.metrics["diverged"]["round"] == 1


def test_an_experiment_without_a_directory_stops_too() -> None:
    from glocalfair.config import load

    overrides = [("data.rows", 300), ("data.features", 2), ("train.lr", 1e6), ("train.rounds", 4)]
    result = Experiment.prepare(load("synthetic", overrides)).run()
    assert result["rounds"] == 1
