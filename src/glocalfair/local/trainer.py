"""The one local trainer: executes a method's plan for one client or for a whole cohort.

Clients are rows of a weight matrix. A step gathers one batch for each client that still trains, runs the network,
forms d loss / d logit (the only place where a method has a say) and lets the optimiser move the rows. A cohort of one
is the sequential case: the same code.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from glocalfair.local.batches import steps
from glocalfair.local.network import Network
from glocalfair.local.stage import KEPT, StageRun
from glocalfair.memory import LINE
from glocalfair.types import Floats, Ints, LocalPlan, Stage, Trained, TrainingSettings
from glocalfair.vision.device import on

_TOGETHER = 1 << 21
"""So many weights are trained together at most: beyond that a group no longer fits the cache, and to call an operation
for many clients at once saves large models little."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows that a trainer can reach: inputs, labels and group membership as tensors.

    `members` is 0/1 with a leading column of ones (everybody) and then a column for each value of each attribute.
    """

    x: torch.Tensor
    y: torch.Tensor
    members: torch.Tensor

    @cached_property
    def cells(self) -> torch.Tensor:
        """`members` of those with label 0 and, side by side with them, of those with label 1: a game's table."""
        positive = self.y.unsqueeze(1)
        return torch.cat([self.members * (1 - positive), self.members * positive], 1)

    def inputs(self, rows: torch.Tensor) -> torch.Tensor:
        """Gather inputs for row numbers of any shape; pictures become floats in [−1, 1]."""
        here = rows.flatten() if self.x.device == rows.device else rows.flatten().to(self.x.device)
        x = self.x.index_select(0, here).view(rows.shape + self.x.shape[1:])
        if x.device != self.y.device:
            x = x.to(self.y.device)
        return x if x.is_floating_point() else x.to(self.y.dtype).div_(127.5).sub_(1)

    def shown(self, rows: Ints) -> torch.Tensor:
        """Return inputs that are not to be written to: rows that lie side by side are not copied."""
        as_they_are = self.x.dim() == 2 and self.x.dtype == self.y.dtype and self.x.device == self.y.device
        if as_they_are and len(rows) and rows[0] >= 0 and rows[-1] < len(self.x):
            first, last = int(rows[0]), int(rows[-1])
            if last - first == len(rows) - 1 and (rows[1:] > rows[:-1]).all():
                return self.x[first : last + 1]
        return self.inputs(torch.as_tensor(rows))


def rows_of(
    x: np.ndarray[Any, Any],
    y: Ints,
    groups: Ints,
    values: Sequence[int],
    dtype: torch.dtype,
    device: torch.device | None = None,
) -> Rows:
    """Build `Rows` from arrays; `values` is the number of values of each attribute. Inputs stay in main memory."""
    inputs = torch.as_tensor(x)
    columns = [np.ones((len(y), 1))] + [
        np.asarray(groups[:, [a]] == np.arange(count), dtype=float) for a, count in enumerate(values)
    ]
    inputs = inputs.to(dtype) if inputs.is_floating_point() else inputs
    if inputs.dim() == 2 and inputs.data_ptr() % LINE:
        inputs = inputs.clone()  # rows of a table are used where they lie: see `aligned`
    return Rows(
        x=inputs,
        y=torch.as_tensor(y).to(dtype).to(device or "cpu"),
        members=torch.as_tensor(np.concatenate(columns, 1)).to(dtype).to(device or "cpu"),
    )


class Job(NamedTuple):
    """One client's work in a round."""

    client: str
    weights: Floats
    plan: LocalPlan
    train: Ints
    validation: Ints
    seed: int
    round: int


@dataclass(frozen=True, eq=False)
class Trainer:
    """Runs plans on rows.

    Attributes
    ----------
    cohort
        How many clients train together at most, of large models fewer. How clients are grouped depends on the model,
        the size of a batch and their sizes and names alone.
    workers
        Threads that train groups side by side; never changes a result.
    class_weight
        Loss weights of the two classes, ``"balanced"`` for n / (2 n_y) on each client, or None.
    """

    network: Network
    rows: Rows
    cohort: int = 128
    workers: int = 1
    class_weight: tuple[float, float] | str | None = None
    chunk: int | None = None
    """How many rows are evaluated at a time; None: as many as are done soonest."""

    @property
    def dtype(self) -> torch.dtype:
        """Precision of weights and arithmetic."""
        return self.rows.y.dtype

    @cached_property
    def _chunk(self) -> int:
        if self.chunk is not None:
            return self.chunk
        if self.rows.x.dim() > 2:
            return 64
        # What stays in the cache is done sooner; but an MLP by hand keeps little of a row beside its inputs.
        inputs = max(1, self.rows.x.shape[1])
        return max(2048, min(8192, (1 << 20) // inputs)) if self.network.by_hand else 2048

    @cached_property
    def together(self) -> bool:
        """Whether clients may be trained together."""
        count = len(self.rows.y)
        # From everywhere: neighbours may be alike.
        return count > 0 and self.network.together(self.rows.inputs(torch.linspace(0, count - 1, 50).long()))

    def logits(self, weights: Floats, rows: Ints) -> Floats:
        """Evaluate one model on some rows."""
        result: Floats = self.logits_of([weights], rows)[0]
        return result

    def logits_of(self, models: Sequence[Floats], rows: Ints) -> Floats:
        """Evaluate several models on the same rows: ``[models, rows]``."""
        flat = [torch.as_tensor(m, dtype=self.dtype, device=self.rows.y.device).unsqueeze(0) for m in models]
        result = torch.empty(len(models), len(rows), dtype=self.dtype)
        for start in range(0, len(rows), self._chunk):
            part = rows[start : start + self._chunk]
            # Only what is known to leave its input alone is shown the rows themselves.
            known = self.network.by_hand
            x = (self.rows.shown(part) if known else self.rows.inputs(torch.as_tensor(part))).unsqueeze(0)
            for each, weights in zip(result, flat, strict=True):
                each[start : start + self._chunk] = self.network.logits(weights, x)[0]
        return result.numpy()

    def train(self, jobs: Sequence[Job], settings: TrainingSettings) -> list[Trained]:
        """Train all jobs and return their results in the order of `jobs`."""
        groups = self._groups(jobs, settings.batch_size)

        def run(group: list[int]) -> list[Trained]:
            with on(self.rows.y.device):
                return self._train_group([jobs[i] for i in group], settings)

        results: list[Trained | None] = [None] * len(jobs)
        if self.workers > 1 and self.together and len(groups) > 1:
            with ThreadPoolExecutor(self.workers) as pool:
                done = list(pool.map(run, groups))
        else:
            done = [run(group) for group in groups]
        for group, trained in zip(groups, done, strict=True):
            for i, result in zip(group, trained, strict=True):
                results[i] = result
        return [result for result in results if result is not None]

    def _groups(self, jobs: Sequence[Job], batch: int) -> list[list[int]]:
        """Group clients of similar size that play games of the same shape, whatever the order they come in."""
        by_shape: dict[tuple[Hashable, ...], list[int]] = {}
        for i in sorted(range(len(jobs)), key=lambda i: (-len(jobs[i].train), jobs[i].client)):
            by_shape.setdefault(tuple(_shape(stage) for stage in jobs[i].plan), []).append(i)
        groups = []
        for same in by_shape.values():
            while same:
                size = self._group_size(min(batch, len(jobs[same[0]].train)))
                groups.append(same[:size])
                same = same[size:]
        return groups

    def _group_size(self, rows: int) -> int:
        """Return how many clients train together, with batches of so many rows."""
        if not self.together:
            return 1
        weights, kept = self.network.layout.size, max(1, rows * self.network.kept)
        return max(1, min(self.cohort, _TOGETHER // weights, KEPT // kept))

    def _train_group(self, jobs: list[Job], settings: TrainingSettings) -> list[Trained]:
        received = current = self._stacked([job.weights for job in jobs])
        snapshots: list[torch.Tensor] = []
        losses: list[torch.Tensor] = []
        outcomes: list[dict[str, Any]] = [{} for _ in jobs]
        taken = np.zeros(len(jobs), dtype=int)
        for number in range(len(jobs[0].plan)):
            stages = [job.plan[number] for job in jobs]
            current = self._start(stages, received, current)
            run = StageRun(self, jobs, stages, number, settings, received, current)
            losses.append(run.execute())
            taken += run.plan.steps
            if run.players is not None:
                outcomes = run.players.outcomes()
            snapshots.append(current)
        each = zip(*(snapshot.cpu().numpy() for snapshot in snapshots), strict=True)
        told = zip(each, losses[0].tolist(), taken.tolist(), outcomes, strict=True)
        return [Trained(weights=weights, loss=loss, steps=steps, game=game) for weights, loss, steps, game in told]

    def _stacked(self, weights: Sequence[Floats]) -> torch.Tensor:
        """Return one row for each client; most often they all got the same model."""
        if all(each is weights[0] for each in weights):
            return torch.as_tensor(weights[0], dtype=self.dtype).expand(len(weights), -1)
        return torch.stack([torch.as_tensor(each, dtype=self.dtype) for each in weights])

    def _start(self, stages: list[Stage], received: torch.Tensor, current: torch.Tensor) -> torch.Tensor:
        """Return where each client's stage starts, as rows that may be changed."""
        named = {"received": received, "previous": current}
        words = {stage.start if isinstance(stage.start, str) else "" for stage in stages}
        if len(words) == 1 and "" not in words:
            return named[words.pop()].clone(memory_format=torch.contiguous_format)
        own = [stage.start for stage in stages]
        return torch.stack(
            [named[s][k] if isinstance(s, str) else torch.as_tensor(s, dtype=self.dtype) for k, s in enumerate(own)]
        )

    def class_weights(self, rows: Ints) -> Floats | None:
        """Return the loss weight of each row from its class, or None when classes count alike."""
        if self.class_weight is None:
            return None
        y = self.rows.y[torch.as_tensor(rows)].cpu().numpy().astype(int)
        if isinstance(self.class_weight, str):
            counts = np.bincount(y, minlength=2)
            # A client with one class has nothing to balance.
            table = len(y) / (2 * counts) if counts.all() else np.ones(2)
        else:
            table = np.asarray(self.class_weight, dtype=float)
        result: Floats = table[y]
        return result


def _shape(stage: Stage) -> Hashable:
    """Name what must be alike in a group: which weights there are, and the rows that a game compiles to."""
    game = stage.game and tuple((c.mode, c.attributes) for c in stage.game.constraints)
    return stage.sample_weight is None, stage.probability_coefficient is None, stage.epochs, game


def local_steps(rows: int, settings: TrainingSettings) -> int:
    """Return how many optimiser steps a client with so many rows takes in a round."""
    return steps(rows, settings.epochs, settings.batch_size)
