"""The one local trainer: executes a method's plan for one client or for a whole cohort.

Clients are rows of a weight matrix. A step gathers one batch for each client that still trains, runs the network,
forms d loss / d logit (the only place where a method has a say) and lets the optimiser move the rows. A cohort of one
is the sequential case: the same code.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
import torch

from glocalfair.local.batches import Schedule, schedule, steps
from glocalfair.local.dropout import drawn
from glocalfair.local.game import Players
from glocalfair.local.network import Network
from glocalfair.local.optimiser import Optimiser
from glocalfair.memory import LINE
from glocalfair.rng import generator, generators
from glocalfair.types import Floats, Ints, LocalPlan, Stage, Trained, TrainingSettings
from glocalfair.vision.augment import augmented
from glocalfair.vision.device import on

_TOGETHER = 1 << 21
"""So many weights are trained together at most: beyond that a group no longer fits the cache, and to call an operation
for many clients at once saves large models little."""

_KEPT = 1 << 23
"""So many numbers a step of them keeps for its gradient at most, for the same reason."""


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
    chunk: int = 2048
    """How many rows are evaluated at a time: what stays in the cache is done sooner."""

    @property
    def dtype(self) -> torch.dtype:
        """Precision of weights and arithmetic."""
        return self.rows.y.dtype

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
        for start in range(0, len(rows), self.chunk):
            part = rows[start : start + self.chunk]
            # Only what is known to leave its input alone is shown the rows themselves.
            known = self.network.by_hand
            x = (self.rows.shown(part) if known else self.rows.inputs(torch.as_tensor(part))).unsqueeze(0)
            for each, weights in zip(result, flat, strict=True):
                each[start : start + self.chunk] = self.network.logits(weights, x)[0]
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
        return max(1, min(self.cohort, _TOGETHER // weights, _KEPT // kept))

    def _train_group(self, jobs: list[Job], settings: TrainingSettings) -> list[Trained]:
        received = current = self._stacked([job.weights for job in jobs])
        snapshots: list[torch.Tensor] = []
        losses: list[torch.Tensor] = []
        outcomes: list[dict[str, Any]] = [{} for _ in jobs]
        taken = np.zeros(len(jobs), dtype=int)
        for number in range(len(jobs[0].plan)):
            stages = [job.plan[number] for job in jobs]
            current = self._start(stages, received, current)
            run = _StageRun(self, jobs, stages, number, settings, received, current)
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


class _StageRun:
    """One stage of a cohort, from schedule to last step. Changes `weights` in place."""

    def __init__(
        self,
        trainer: Trainer,
        jobs: list[Job],
        stages: list[Stage],
        number: int,
        settings: TrainingSettings,
        received: torch.Tensor,
        weights: torch.Tensor,
    ) -> None:
        self.trainer, self.settings, self.weights = trainer, settings, weights
        self.jobs, self.number = jobs, number
        # A generator takes a while to make, and most cohorts need none of these.
        augments = settings.augment != "none" and trainer.rows.x.dim() == 4
        self.augmenters = [self._generator(job, "augment") for job in jobs] if augments else []
        epochs = settings.epochs if stages[0].epochs is None else stages[0].epochs
        self.plan: Schedule = schedule(
            [len(job.train) for job in jobs],
            epochs,
            settings.batch_size,
            generators(
                jobs[0].seed,
                [jobs[0].round],
                [job.client for job in jobs if len(job.train) > settings.batch_size],
                ["batches", number],
            ),
        )
        dtype = trainer.dtype
        again = self.plan.active[1] if len(self.plan.active) > 1 else 0
        drops = trainer.together and trainer.network.drops
        self.droppers = [self._generator(job, "network") for job in jobs[:again]] if drops else []
        """Of those who take a second step; the others need theirs but once."""

        def in_order(values: Sequence[np.ndarray[Any, Any]], dtype: torch.dtype) -> torch.Tensor:
            """Lay out one value for each row of a client as the steps need them: ``[batches, width]``."""
            return torch.as_tensor(np.concatenate(values)[self.plan.position], dtype=dtype)

        self.rows = in_order([job.train for job in jobs], torch.int64)
        self.labels = trainer.rows.y.index_select(0, self.rows.flatten()).view(self.rows.shape)
        mean = self.loss_weight = torch.as_tensor(self.plan.weight, dtype=dtype)
        self.filled = (mean > 0).sum(1) if drops else None
        self.logits = torch.zeros_like(mean)
        for given in (
            [stage.sample_weight for stage in stages],
            [trainer.class_weights(job.train) for job in jobs],
        ):
            if given[0] is not None:
                self.loss_weight = self.loss_weight * in_order([v for v in given if v is not None], dtype)
        self.tilt: torch.Tensor | None = None
        self.pull = self.loss_weight
        coefficients = [stage.probability_coefficient for stage in stages]
        if coefficients[0] is not None:
            self.tilt = mean * in_order([c for c in coefficients if c is not None], dtype)
            # d/ds of w·BCE + t·σ: w·(σ − y) + t·σ·(1 − σ) = (σ − y)·(w + t·(1 − y) − t·σ), as y is 0 or 1.
            self.pull = torch.addcmul(self.loss_weight, self.tilt, 1 - self.labels)
        size = trainer.network.layout.trainable
        whole = size == weights.shape[1]
        self.theta, self.extra = weights if whole else weights[:, :size].contiguous(), weights[:, size:].contiguous()
        self.anchor = received[:, :size]
        scales = [stage.lr_scale for stage in stages]
        lr: torch.Tensor | float = settings.lr * scales[0]
        if len(set(scales)) > 1:
            lr = settings.lr * torch.tensor(scales, dtype=dtype).unsqueeze(1)
        self.optimiser = Optimiser(settings, lr, again)
        self._moving = self.theta, self.extra
        pulls = [stage.proximal for stage in stages]
        self.proximal = torch.tensor(pulls, dtype=dtype).unsqueeze(1) if any(pulls) else None
        self.players: Players | None = None
        self.scale: torch.Tensor | None = None
        if stages[0].game is not None:
            self.players = Players(
                [stage.game for stage in stages if stage.game is not None],
                trainer.network,
                trainer.rows,
                [job.train for job in jobs],
                [job.validation for job in jobs],
                steps=self.plan.steps,
                generators=[generator(job.seed, job.round, job.client, "iterate") for job in jobs],
            )
            self.scale = mean * self.players.size[torch.as_tensor(self.plan.client)]

    @torch.no_grad()
    def execute(self) -> torch.Tensor:
        """Run all steps; return each client's mean training loss on the way."""
        with self._seeded():
            if self.players is not None:
                self.players.start(self.theta, self.extra)
            with torch.inference_mode() if self.trainer.network.by_hand else nullcontext():
                for step, batch in enumerate(self._batches()):
                    self._step(step, *batch)
            if self.players is not None:
                self.players.choose(self.theta, self.extra)
        if self.theta is not self.weights:
            self.weights.copy_(torch.cat([self.theta, self.extra], 1))
        loss = self.loss_weight * (torch.nn.functional.softplus(self.logits) - self.labels * self.logits)
        summed = loss.new_zeros(len(self.theta)).index_add_(0, torch.as_tensor(self.plan.client), loss.sum(1))
        return summed / torch.as_tensor(self.plan.steps).clamp(min=1)

    @contextmanager
    def _seeded(self) -> Iterator[None]:
        """Let a model with randomness of its own draw by round and client, whatever ran before."""
        if self.trainer.together:
            yield
            return
        # `torch.manual_seed` is for all devices, and writes down who called it for those that are not there: 2 ms.
        on_cpu = self.trainer.network.device.type == "cpu"
        seed = torch.default_generator.manual_seed if on_cpu else torch.manual_seed
        with torch.random.fork_rng(devices=[]):
            seed(int(self._generator(self.jobs[0], "network").integers(2**62)))
            yield

    def _generator(self, job: Job, purpose: str) -> np.random.Generator:
        return generator(job.seed, job.round, job.client, purpose, self.number)

    def _inputs(self, rows: torch.Tensor) -> torch.Tensor:
        x = self.trainer.rows.inputs(rows)
        if not self.augmenters:
            return x
        pairs = zip(x, self.augmenters, strict=False)
        return torch.stack([augmented(each, self.settings.augment, rng) for each, rng in pairs])

    def _masks(self, filled: torch.Tensor, width: int) -> list[torch.Tensor]:
        """Draw the masks of a step for so many rows of each client."""
        rngs: Iterable[np.random.Generator] = self.droppers[: len(filled)]
        if len(filled) > len(self.droppers):  # in the first step alone
            job, once = self.jobs[0], (other.client for other in self.jobs[len(self.droppers) : len(filled)])
            rngs = chain(rngs, generators(job.seed, [job.round], once, ["network", self.number]))
        found = drawn(self.trainer.network.drops, rngs, filled.tolist(), width)
        return [mask.to(self.labels.device, self.trainer.dtype) for mask in found]

    def _cells(self) -> Iterator[torch.Tensor | None]:
        """Yield a game's cells of each step, scaled: made for many steps at once, but not for any number of them."""
        if self.scale is None:
            yield from [None] * len(self.plan.active)
            return
        cells, width = self.trainer.rows.cells, self.rows.shape[1]
        most = max(1, _KEPT // (width * cells.shape[1] * self.plan.active[0])) if self.plan.active else 1
        ends = [0, *accumulate(self.plan.active)]
        for first in range(0, len(self.plan.active), most):
            active = self.plan.active[first : first + most]
            part = slice(ends[first], ends[first + len(active)])
            found = cells.index_select(0, self.rows[part].flatten()).view(-1, width, cells.shape[1])
            yield from found.mul_(self.scale[part].unsqueeze(2)).split(active)

    def _batches(self) -> Iterator[tuple[Any, ...]]:
        """Yield what `_step` takes, of each step."""
        values = [self.rows, self.labels, self.logits, self.pull, self.tilt, self.filled]
        cut = [[None] * len(self.plan.active) if v is None else v.split(self.plan.active) for v in values]
        for step, parts in enumerate(zip(*cut, self._cells(), strict=True)):
            if self.trainer.together:
                yield parts
            else:
                # Padding would enter BatchNorm's statistics, and costs as much as a row; one client alone needs none.
                width = int((self.plan.weight[step] > 0).sum())
                yield tuple(part if part is None else part[:, :width] for part in parts)

    def _step(
        self,
        step: int,
        rows: torch.Tensor,
        y: torch.Tensor,
        seen: torch.Tensor,
        pull: torch.Tensor,
        tilt: torch.Tensor | None,
        filled: torch.Tensor | None,
        cells: torch.Tensor | None,
    ) -> None:
        active, width = rows.shape
        x = self._inputs(rows)
        if active != self._moving[0].shape[0]:
            self._moving = self.theta[:active], self.extra[:active]
        theta, extra = self._moving
        masks = () if filled is None else self._masks(filled, width)
        logits, pullback = self.trainer.network.forward(theta, extra, x, *masks)
        seen.copy_(logits)
        probability = torch.sigmoid(logits)
        slope = (probability - y).mul_(pull if tilt is None else torch.addcmul(pull, tilt, probability, value=-1))
        if self.players is not None and cells is not None:
            slope = self.players.play(slope, logits, probability, cells)
        grad = pullback(slope)
        if self.proximal is not None:
            grad += self.proximal[:active] * (theta - self.anchor[:active])
        self.optimiser.step(theta, grad)
        if self.players is not None:
            self.players.observe(step, self.theta, self.extra, active)


def _shape(stage: Stage) -> Hashable:
    """Name what must be alike in a group: which weights there are, and the rows that a game compiles to."""
    game = stage.game and tuple((c.mode, c.attributes) for c in stage.game.constraints)
    return stage.sample_weight is None, stage.probability_coefficient is None, stage.epochs, game


def local_steps(rows: int, settings: TrainingSettings) -> int:
    """Return how many optimiser steps a client with so many rows takes in a round."""
    return steps(rows, settings.epochs, settings.batch_size)
