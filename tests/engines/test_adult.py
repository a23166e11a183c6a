"""The default experiment on the real data."""

import numpy as np
import pytest

from glocalfair.config import load
from glocalfair.errors import GlocalfairError
from glocalfair.experiment import Experiment
from glocalfair.runs import RunDirectory


def test_fedavg_on_adult_reaches_the_known_accuracy() -> None:
    """Four one-group clients, three of them a round, 30 rounds."""
    result = Experiment.prepare(load("adult")).run()
    assert result["global"]["accuracy"] >= 0.850
    assert result["global"]["constant"] is False
    assert result["local"]["eod"]["sex"]["defined"] == 0, "a client with one group has no gap"


def test_warm_start_continues_from_saved_weights(tmp_path) -> None:  # type: ignore[no-untyped-def]
    short = [("data.name", "synthetic"), ("data.rows", 600), ("partition.name", "iid"), ("train.rounds", 2)]
    config = load("synthetic", short)
    first = Experiment.prepare(config)
    directory = RunDirectory.create(tmp_path / "first", config)
    first.run(directory)
    saved = str(directory.model)
    warm = Experiment.prepare(load("synthetic", [*short, ("model.warm_start", saved)]))
    cold = Experiment.prepare(config)
    losses = []
    for experiment in (warm, cold):
        state, record = experiment.simulator.step(experiment.simulator.start(experiment.initial))
        losses.append(record["loss"])
        assert np.isfinite(state.server.weights).all()
    assert losses[0] < losses[1]
    with pytest.raises(GlocalfairError, match="the model needs"):
        Experiment.prepare(load("synthetic", [*short, ("model.warm_start", saved), ("data.features", 9)]))
