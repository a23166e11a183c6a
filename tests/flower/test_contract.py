"""Every registered method runs on Flower without code of its own, and ends where the simulator ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the flower extra")

from glocalfair.config import RunConfig
from tests.contract.test_methods import CASES, make
from tests.federations import awkward, drawn, play
from tests.flower.memory import deployment

each_case = pytest.mark.parametrize(("name", "values"), CASES, ids=lambda v: v if isinstance(v, str) else str(v))


@each_case
def test_equals_the_simulator(name: str, values: dict[str, Any], tmp_path: Path) -> None:
    sim = make(name, values, awkward(3), participation=0.75)
    expected, log = play(sim, 4)
    state, records = deployment(sim, {"name": name, **values}, tmp_path).play()
    np.testing.assert_allclose(state.server.weights, expected.server.weights, rtol=0, atol=1e-12)
    assert set(state.server.values) == set(expected.server.values)
    assert [r["participants"] for r in records] == [r["participants"] for r in log]
    assert not any(r["rejected"] or r["failed"] for r in records)


@pytest.mark.parametrize("name", ["fedavg", "glocalfair", "glocalfair-paper", "ditto", "fairfed"])
def test_float32_bit_for_bit_when_the_simulator_trains_one_by_one(name: str, tmp_path: Path) -> None:
    sim = make(name, {}, drawn(3), participation=0.75)
    sim = replace(sim, run=RunConfig(dtype="float32", cohort=1))
    expected, _ = play(sim, 4)
    state, _ = deployment(sim, {"name": name}, tmp_path).play()
    np.testing.assert_array_equal(state.server.weights, expected.server.weights)


def test_one_message_for_each_round_and_client(tmp_path: Path) -> None:
    there = deployment(make("glocalfair", {}, drawn(), participation=0.5), {"name": "glocalfair"}, tmp_path)
    _, records = there.play()
    sent = [kind for kind, _ in there.transport.sent]
    assert sent.count("enrol") == len(there.sites)
    assert sent.count("train") == sum(len(record["participants"]) for record in records)
