"""A training step has no loop over groups or constraints: it executes as many instructions whatever their number."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch

from glocalfair.local.constraints import FNR, FPR, Constraint, PositiveRate
from glocalfair.local.game import Game, Players
from glocalfair.local.network import network
from glocalfair.local.stage import StageRun
from glocalfair.local.trainer import Job, Trainer, rows_of
from glocalfair.models import MLP
from glocalfair.types import Attribute, Stage, TrainingSettings

ROWS, CLIENTS = 240, 3
FEW = ((2,), (FNR(0.02),))
MANY = ((2, 3, 5), (FNR(0.02), FPR(0.02), PositiveRate(0.02)))


def instructions(monkeypatch: pytest.MonkeyPatch, values: Sequence[int], stage: Stage) -> list[int]:
    """Train and return how many instructions each step took."""
    rng = np.random.default_rng(0)
    groups = np.stack([rng.integers(0, count, ROWS) for count in values], 1)
    model = MLP(4, (3,)).double()
    x, y = rng.normal(size=(ROWS, 4)), rng.integers(0, 2, ROWS)
    trainer = Trainer(network(model), rows_of(x, y, groups, values, torch.float64))
    weights = trainer.network.layout.flatten(model).numpy()
    parts = np.split(np.arange(ROWS), CLIENTS)
    jobs = [Job(f"c{k}", weights, (stage,), part[:60], part[60:], seed=0, round=1) for k, part in enumerate(parts)]
    counts: list[int] = []

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_opcodes = True
        counts[-1] += event == "opcode"
        return trace

    step = StageRun._step

    def counted(self: StageRun, *arguments: Any) -> None:
        counts.append(0)
        before = sys.gettrace()
        gc.disable()  # what others do when memory is tidied up is no part of a step
        sys.settrace(trace)
        try:
            step(self, *arguments)
        finally:
            sys.settrace(before)
            gc.enable()

    with monkeypatch.context() as patch:
        patch.setattr(StageRun, "_step", counted)
        for _ in range(2):  # the first time some things are made that stay
            counts.clear()
            trainer.train(jobs, TrainingSettings(lr=0.1, momentum=0.9, epochs=2, batch_size=16))
    return counts


def game(values: Sequence[int], constraints: Sequence[Constraint], **options: Any) -> Stage:
    named = tuple(Attribute(f"a{k}", tuple(map(str, range(count)))) for k, count in enumerate(values))
    return Stage(game=Game(tuple(constraints), named, **options))


@pytest.mark.parametrize("solver", ["lagrangian", "proxy_lagrangian"])
def test_the_game_inside_of_a_step(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (
        instructions(monkeypatch, values, game(values, constraints, solver=solver))
        for values, constraints in (FEW, MANY)
    )
    assert few == many
    assert len(few) == 8 and min(few) > 100


def test_the_pull_of_fixed_duals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the constraints were, they have become one coefficient for each row."""
    tilted = Stage(probability_coefficient=np.linspace(-1, 1, 60))
    few, many = (instructions(monkeypatch, values, tilted) for values, _ in (FEW, MANY))
    assert few == many and min(few) > 100


def test_a_loop_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Players.play

    def looping(self: Players, slope: torch.Tensor, *arguments: Any) -> torch.Tensor:
        for _ in self.game.constraints:
            slope = slope * 1
        return play(self, slope, *arguments)

    monkeypatch.setattr(Players, "play", looping)
    few, many = (instructions(monkeypatch, values, game(values, constraints)) for values, constraints in (FEW, MANY))
    assert all(b > a for a, b in zip(few, many, strict=True))
