"""Privacy on a deployment: the same place, the same ε, and noise that no seed repeats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the flower extra")

from glocalfair import registry
from glocalfair.privacy import PrivacyConfig
from tests.federations import drawn, play, simulator
from tests.flower.memory import Deployment, deployment


def deployed(folder: Path, method: str = "fedavg", **privacy: float) -> Deployment:
    sim = replace(simulator(registry.method(method), drawn(), participation=0.5), privacy=PrivacyConfig(**privacy))  # type: ignore[arg-type]
    made = deployment(sim, {"name": method}, folder)
    made.config = replace(made.config, privacy=sim.privacy)
    made.terms = replace(made.terms, privacy=vars(sim.privacy))
    return made


def test_clipping_alone_is_the_simulators(tmp_path: Path) -> None:
    made = deployed(tmp_path, clip=0.01)
    state, records = made.play()
    ours, logs = play(made.sim, 4)
    np.testing.assert_array_equal(state.server.weights, ours.server.weights)
    assert [r["privacy"] for r in records] == [r["privacy"] for r in logs]


def test_a_site_draws_noise_that_cannot_be_repeated(tmp_path: Path) -> None:
    runs = [deployed(tmp_path / name, clip=0.01, noise_multiplier=1.0).play() for name in "ab"]
    (one, records), (two, _) = runs
    assert (one.server.weights != two.server.weights).all()
    simulated, logs = play(deployed(tmp_path / "c", clip=0.01, noise_multiplier=1.0).sim, 4)
    assert (one.server.weights != simulated.server.weights).all()
    # The schedule is public, so ε is the same everywhere.
    assert [r["privacy"] for r in records] == [r["privacy"] for r in logs]


def test_a_site_refuses_what_the_noise_does_not_cover(tmp_path: Path) -> None:
    made = deployed(tmp_path, "fairfed", clip=0.01, noise_multiplier=1.0)
    with pytest.raises(Exception, match=r"\S"):
        made.coordinator()
    assert any("does not cover what 'fairfed' sends" in line for line in made.lines), made.lines
