"""A checkpoint gives back what clients keep, of whatever kind and shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from glocalfair import runs
from glocalfair.config import build
from glocalfair.engines.state import SimulationState
from glocalfair.errors import GlocalfairError
from glocalfair.runs import RunDirectory
from glocalfair.types import ServerState

STATES = {
    "a/b": {"pressures": np.arange(4.0).reshape(2, 2), "count": 3},
    "c": {"pressures": np.ones((2, 2)), "overall": np.array([0.5, np.nan])},
    "other shape": {"pressures": np.ones((1, 2))},
    "other type": {"pressures": np.ones((2, 2), dtype=np.float32)},
    "no axis": {"pressures": np.array(3.0, dtype=np.float32)},
    "large": {"personal": np.random.default_rng(0).random(5000), "name": "x"},
}


def test_client_states_come_back(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path / "run", build({}))
    directory.save_state(SimulationState(2, ServerState(np.ones(3)), clients=STATES))
    found = directory.load_state().clients
    assert set(found) == set(STATES)
    for client, values in STATES.items():
        assert set(found[client]) == set(values)
        for key, value in values.items():
            np.testing.assert_array_equal(found[client][key], value)
            assert np.asarray(found[client][key]).dtype == np.asarray(value).dtype


def test_a_checkpoint_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = RunDirectory.create(tmp_path / "run", build({}))
    monkeypatch.setattr(runs, "FORMAT", 1)
    directory.save_state(SimulationState(2, ServerState(np.ones(3))))
    monkeypatch.undo()
    with pytest.raises(GlocalfairError, match="another version"):
        directory.load_state()
