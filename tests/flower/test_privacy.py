"""``[privacy]`` on a deployment: what leaves a site is clipped and noisy, once a round, and ε is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the flower extra")

from scipy.optimize import brentq
from scipy.stats import norm

from glocalfair.flower.deployment import coordinate
from glocalfair.flower.site import Kind
from glocalfair.flower.wire import Content
from glocalfair.privacy import PrivacyConfig, seeded_normal
from tests.federations import drawn, play, simulator
from tests.flower.groups import write_app, write_tables
from tests.flower.memory import Deployment, deployment
from tests.flower.test_tables import transport

CLIP, NOISE = 0.01, 2.0


def deployed(folder: Path, source: Any) -> Deployment:
    """Give every site this source of noise, in place of the operating system's."""
    from glocalfair import registry

    privacy = PrivacyConfig(clip=CLIP, noise_multiplier=NOISE)
    sim = replace(simulator(registry.method("fedavg"), drawn(), participation=0.5), privacy=privacy)
    made = deployment(sim, {"name": "fedavg"}, folder)
    made.config = replace(made.config, privacy=privacy)
    made.terms = replace(made.terms, privacy=vars(privacy))
    for number, name in enumerate(sorted(made.sites), start=1):
        made.sites[name] = replace(made.sites[name], noise=source)
        made.transport._sites[number] = made.sites[name].answer
    return made


def test_the_noise_of_a_source_is_that_of_the_simulator(tmp_path: Path) -> None:
    made = deployed(tmp_path, seeded_normal)
    state, records = made.play()
    expected, log = play(made.sim, 4)
    np.testing.assert_allclose(state.server.weights, expected.server.weights, rtol=0, atol=1e-12)
    assert [record["privacy"] for record in records] == [record["privacy"] for record in log]


def test_what_leaves_a_site_is_the_clipped_step_and_noise(tmp_path: Path) -> None:
    drawn_for: list[tuple[int, str]] = []

    def source(seed: int, number: int, client: str) -> Any:
        drawn_for.append((number, client))
        return np.ones

    made, seen = deployed(tmp_path, source), []
    name = sorted(made.sites)[0]

    def listen(kind: Kind, request: Content) -> Content:
        reply = made.sites[name].answer(kind, request)
        if kind == "train":
            seen.append((request, reply))
        return reply

    made.transport._sites[1] = listen
    made.play()
    assert seen
    for request, reply in seen:
        step = reply.arrays["weights"] - request.arrays["weights"] - NOISE * CLIP
        np.testing.assert_allclose(np.linalg.norm(step), CLIP, rtol=1e-9)
    logs = [json.loads(line) for line in made.sites[name].store.log_file.read_text().splitlines()]
    told = [line["diagnostics"]["privacy"] for line in logs if line["event"] == "trained"]
    assert len(told) == len(seen) and all(each["clipped"] and each["norm"] > CLIP for each in told)

    # Asked again, it sends the same noise: the mean of many draws would be the update itself.
    before = len(drawn_for)
    request, reply = seen[-1]
    assert made.sites[name].answer("train", request).digest() == reply.digest()
    assert len(drawn_for) == before


def gaussian(rounds: int, multiplier: float, delta: float) -> float:
    """The exact ε of so many Gaussian mechanisms one after the other (Balle and Wang, 2018)."""
    mu = np.sqrt(rounds) / multiplier

    def excess(e: float) -> float:
        return float(norm.cdf(mu / 2 - e / mu) - np.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta)

    return float(brentq(excess, 0.0, 100.0))


def test_epsilon_of_a_whole_run_is_in_its_result(tmp_path: Path) -> None:
    write_tables(tmp_path)
    section = f"[privacy]\nclip = {CLIP}\nnoise_multiplier = {NOISE}"
    app = write_app(tmp_path, "app", "fedavg", section, rounds=3)
    result = coordinate(transport(tmp_path), app / "app" / "federation.toml", app / "run", tell=lambda line: None)
    rounds = [json.loads(line) for line in (app / "run" / "rounds.jsonl").read_text().splitlines()]
    for number, record in enumerate(rounds, start=1):
        exact = gaussian(number, NOISE, record["privacy"]["delta"])
        # The accountant gives a bound, a few per cent above what is exact for Gaussian noise alone.
        assert exact <= record["privacy"]["epsilon"] <= 1.15 * exact
    assert result["privacy"]["epsilon"] == rounds[-1]["privacy"]["epsilon"]
