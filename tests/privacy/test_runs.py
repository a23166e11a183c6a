"""Privacy in whole runs: the same as without it when off, ε in log, result, tables and card."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from glocalfair import registry
from glocalfair.card import card
from glocalfair.config import Config, build, dump, to_mapping
from glocalfair.errors import GlocalfairError
from glocalfair.experiment import Experiment
from glocalfair.privacy import PrivacyConfig, epsilon, secure_source, uncovered
from glocalfair.report.result import final_report
from glocalfair.runs import RunDirectory, jsonable
from tests.federations import drawn, play, simulator

NOISY = {"clip": 0.5, "noise_multiplier": 2.0}


def config(method: str = "fedavg", **privacy: Any) -> Config:
    return build(
        {
            "data": {"name": "synthetic", "rows": 300},
            "partition": {"name": "iid", "clients": 4},
            "method": {"name": method},
            "train": {"rounds": 4, "participation": 0.5},
            "privacy": privacy,
        }
    )


def shown(result: dict[str, Any], last: dict[str, Any]) -> str:
    console = Console(width=200, file=io.StringIO())
    with console.capture() as captured:
        for part in final_report(result, last):
            console.print(part)
    return captured.get()


@pytest.mark.parametrize("method", ["fedavg", "qffl", "glocalfair"])
def test_off_and_no_bound_are_the_same_bit_for_bit(method: str) -> None:
    plain = simulator(registry.method(method), drawn(), participation=0.5)
    loose = replace(plain, privacy=PrivacyConfig(clip=float("inf")))
    (one, records), (two, others) = play(plain, 4), play(loose, 4)
    np.testing.assert_array_equal(one.server.weights, two.server.weights)
    assert not any("privacy" in record for record in records)
    assert all(record["privacy"]["epsilon"] == float("inf") for record in others)


def test_every_client_sends_at_most_the_bound() -> None:
    sim = replace(simulator(registry.method("fedavg"), drawn()), privacy=PrivacyConfig(clip=0.01))
    state, _ = play(sim, 1)
    updates, _, told, _ = sim.train_clients(state, sim.context(2))
    for update in updates:
        assert np.linalg.norm(update.weights - state.server.weights) == pytest.approx(0.01)
        assert told[update.client]["privacy"]["clipped"]


def test_noise_follows_the_seed_in_a_simulation_and_nothing_on_a_site() -> None:
    sim = replace(simulator(registry.method("fedavg"), drawn()), privacy=PrivacyConfig(**NOISY))
    np.testing.assert_array_equal(play(sim, 2)[0].server.weights, play(sim, 2)[0].server.weights)
    backwards = replace(sim, federation=replace(sim.federation, clients=sim.federation.clients[::-1]))
    np.testing.assert_array_equal(play(sim, 2)[0].server.weights, play(backwards, 2)[0].server.weights)
    site = replace(sim, noise=secure_source)
    assert (play(site, 2)[0].server.weights != play(site, 2)[0].server.weights).all()


def test_epsilon_in_log_result_tables_and_card(tmp_path: Path) -> None:
    made = config(**NOISY)
    directory = RunDirectory.create(tmp_path / "run", made)
    result = Experiment.prepare(made).run(directory)
    records = directory.load_rounds()
    asked = [record["participants"] for record in records]
    clients = {name for names in asked for name in names}
    for number, record in enumerate(records, 1):
        most = max(sum(name in names for names in asked[:number]) for name in clients)
        assert record["privacy"] == {"epsilon": pytest.approx(epsilon(2.0, 1e-5, most)), "delta": 1e-5}
    assert result["privacy"]["epsilon"] == records[-1]["privacy"]["epsilon"]
    told = f"ε = {result['privacy']['epsilon']:.2f}"
    assert told in shown(jsonable(result), records[-1])
    assert told in shown(directory.load_result(), records[-1])
    assert told in card(tmp_path / "run")
    assert build(to_mapping(made)) == made and "[privacy]" in dump(to_mapping(made))


def test_clipping_alone_promises_nothing(tmp_path: Path) -> None:
    made = config(clip=0.5)
    directory = RunDirectory.create(tmp_path / "run", made)
    result = Experiment.prepare(made).run(directory)
    text = shown(jsonable(result), directory.load_rounds()[-1])
    assert "no noise, so no guarantee" in text and "ε" not in text
    assert "no noise, so no guarantee" in card(tmp_path / "run")


def test_a_continued_run_has_the_same_epsilon(tmp_path: Path) -> None:
    made = config(**NOISY)
    whole = RunDirectory.create(tmp_path / "whole", made)
    Experiment.prepare(made).run(whole)
    experiment = Experiment.prepare(made)
    state, first = play(experiment.simulator, 2, experiment.simulator.start(experiment.initial))
    half = RunDirectory.create(tmp_path / "half", made)
    for record in first:
        half.append(record, 0.0)
    half.save_state(state)
    again = RunDirectory.open(tmp_path / "half")
    Experiment.prepare(again.load_config()).run(again, again.load_state())
    assert again.rounds.read_bytes() == whole.rounds.read_bytes()
    assert again.load_result()["privacy"] == whole.load_result()["privacy"]


def test_an_outsider_sees_less() -> None:
    federation = drawn(clients=8)
    base = simulator(registry.method("fedavg"), federation, participation=0.25)
    near = replace(base, privacy=PrivacyConfig(**NOISY))
    far = replace(base, privacy=PrivacyConfig(**NOISY, observer="outsider"))
    assert far.epsilon(4) == pytest.approx(epsilon(2.0, 1e-5, 4, 0.25))
    assert far.epsilon(4) < near.epsilon(4)


@pytest.mark.parametrize("method", sorted(registry.methods()))
def test_what_the_noise_does_not_cover_is_refused_or_named(method: str) -> None:
    sent = uncovered(registry.method(method))
    named = {d.text for d in registry.method(method).discloses()} - {
        "the model after local training",
        "the number of training examples",
    }
    assert set(sent) == named
    if not sent:
        Experiment.prepare(config(method, **NOISY))
        return
    with pytest.raises(GlocalfairError, match="does not cover what"):
        Experiment.prepare(config(method, **NOISY))
    result = Experiment.prepare(config(method, **NOISY, uncovered="send")).run()
    assert result["privacy"]["without_noise"] == list(sent)
    assert sent[0] in " ".join(shown(jsonable(result), {}).split())


def test_clipping_alone_refuses_no_method() -> None:
    Experiment.prepare(config("fairfed", clip=1.0))


def test_what_else_would_void_the_guarantee_is_refused() -> None:
    made = config(**NOISY)
    with pytest.raises(GlocalfairError, match=r"'train.early_stopping' must be 0"):
        Experiment.prepare(replace(made, train=replace(made.train, early_stopping=2)))
    targets = {"name": "glocalfair", "reference": "targets", "targets": [0.4, 0.1, 0.2]}
    outsider = replace(made, privacy=PrivacyConfig(**NOISY, observer="outsider"))
    with pytest.raises(GlocalfairError, match=r"'privacy.observer' must be 'server'"):
        Experiment.prepare(replace(outsider, method=targets))
    Experiment.prepare(replace(made, method=targets))


def test_unknown_keys_are_errors() -> None:
    with pytest.raises(GlocalfairError, match="Did you mean 'noise_multiplier'"):
        build({"privacy": {"noise_multiplyer": 1.0}})
    assert json.dumps(jsonable(to_mapping(Config())["privacy"]))
