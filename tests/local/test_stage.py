"""Padding is left out where it costs most, and nobody's result depends on that."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from glocalfair.local import stage
from glocalfair.local.batches import schedule
from glocalfair.local.stage import StageRun, lanes
from glocalfair.models import MLP
from glocalfair.rng import generator
from glocalfair.types import Stage, TrainingSettings

from .test_together import made
from .test_trainer import PLANS, SETTINGS, Odd, assert_equal, jobs, module, trainer

OWN = {**PLANS, "own pull": lambda size, name: (Stage(proximal=1 / size),)}
ADAM = TrainingSettings(optimizer="adam", lr=0.1, epochs=3, batch_size=16, weight_decay=0.01)


def widths(monkeypatch: pytest.MonkeyPatch) -> set[tuple[int, int]]:
    """Let every lane be worth it, however little it saves; return a set that fills with the shapes of batches."""
    monkeypatch.setattr(stage, "_WORTH", 0)
    monkeypatch.setattr(stage, "_LITTLE", 1 << 30)
    seen: set[tuple[int, int]] = set()
    step = StageRun._step

    def watched(self: StageRun, lane: Any, number: int, rows: Any, *more: Any) -> None:
        seen.add(tuple(rows.shape))
        step(self, lane, number, rows, *more)

    monkeypatch.setattr(StageRun, "_step", watched)
    return seen


@pytest.mark.parametrize("settings", [SETTINGS, ADAM], ids=["sgd", "adam"])
@pytest.mark.parametrize("kind", [MLP, Odd])
@pytest.mark.parametrize("name", OWN)
def test_lanes_change_nothing(
    name: str, kind: type[nn.Module], settings: TrainingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = module(kind)
    work = jobs(model, OWN[name])  # 70, 33, 5 and 1 rows
    usual = trainer(model).train(work, settings)
    seen = widths(monkeypatch)
    assert_equal(trainer(model).train(work, settings), usual, 1e-10)
    assert name not in ("plain", "weighted") or seen >= {(2, 16), (1, 5), (1, 1)}


@pytest.mark.parametrize("name", ["dropout", "function", "in place"])
def test_lanes_draw_the_same_masks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = made(name)
    for settings in (SETTINGS, TrainingSettings(lr=0.1, batch_size=16)):
        usual = trainer(model).train(jobs(model, PLANS["plain"]), settings)
        with monkeypatch.context() as patch:
            seen = widths(patch)
            assert_equal(trainer(model).train(jobs(model, PLANS["plain"]), settings), usual, 1e-10)
        assert (1, 5) in seen


@pytest.mark.parametrize("name", ["dropout", "function", "in place"])
@pytest.mark.parametrize("numbers", [1, 3000])
def test_masks_drawn_for_fewer_steps_at_once_are_the_same(
    name: str, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, settings = made(name), TrainingSettings(lr=0.1, batch_size=8, epochs=2)
    usual = trainer(model).train(jobs(model, PLANS["plain"]), settings)
    monkeypatch.setattr(stage, "KEPT", numbers)
    assert_equal(trainer(model).train(jobs(model, PLANS["plain"]), settings), usual, 0)


@given(
    st.lists(st.integers(1, 200), min_size=1, max_size=60).map(lambda rows: sorted(rows, reverse=True)),
    st.integers(1, 64),
    st.sampled_from([1, 1 << 12, 1 << 24]),
)
def test_lanes_hold_everybody_and_every_batch(rows: list[int], batch: int, weights: int) -> None:
    found = lanes(rows, min(batch, rows[0]), weights)
    assert [first for first, _, _ in found[1:]] == [last for _, last, _ in found[:-1]]
    assert found[0][0] == 0 and found[-1][1] == len(rows)
    for first, last, width in found:
        assert first < last and all(min(n, batch) <= width for n in rows[first:last])
    # Whoever follows fills at most half of the lane before.
    assert all(2 * later <= before for (_, _, before), (_, _, later) in pairwise(found))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(1, 3), st.integers(1, 16))
def test_a_schedule_deals_every_row_once_in_each_epoch(rows: list[int], epochs: int, batch: int) -> None:
    rows = sorted(rows, reverse=True)
    plan = schedule(rows, epochs, batch, [generator(k) for k, n in enumerate(rows) if n > batch])
    real = plan.weight > 0
    np.testing.assert_array_equal(plan.filled, real.sum(1))
    np.testing.assert_allclose(plan.weight.sum(1), 1)
    starts = np.cumsum([0, *rows])
    for k, n in enumerate(rows):
        own = plan.position[plan.client == k]
        assert ((own >= starts[k]) & (own < starts[k + 1])).all(), "padding is of the client's own rows"
        dealt = own[real[plan.client == k]].reshape(epochs, n)
        np.testing.assert_array_equal(np.sort(dealt, axis=1), np.tile(np.arange(starts[k], starts[k + 1]), (epochs, 1)))
        assert plan.steps[k] == epochs * -(-n // batch)
    parts = np.split(plan.filled, np.cumsum(plan.active)[:-1])
    assert plan.fullest == [int(part.max()) for part in parts]
