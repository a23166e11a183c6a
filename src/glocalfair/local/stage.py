"""One stage of a cohort's training: its batches laid out in advance, then step after step.

Padding costs as much as a row. So a step is as wide as its fullest batch, and where many clients (which are sorted by
size) are far from filling one, they train in a lane of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from glocalfair.local.batches import Schedule, schedule
from glocalfair.local.dropout import drawn
from glocalfair.local.game import Game, Players
from glocalfair.local.optimiser import Optimiser
from glocalfair.rng import generator, generators
from glocalfair.types import Stage, TrainingSettings
from glocalfair.vision.augment import augmented

if TYPE_CHECKING:
    from glocalfair.local.trainer import Job, Trainer

KEPT = 1 << 23
"""So many numbers a step of a cohort keeps for its gradient at most: beyond that they no longer fit the cache."""

_WORTH = 1 << 22
"""A lane of its own must save the products of so many weights with rows: it calls every operation once more."""

_LITTLE = 8
"""To leave out less than this part of a batch takes as long as it saves."""


@dataclass(eq=False)
class _Lane:
    """Neighbours in a cohort, ``first`` to ``last``, with batches of one width, and what their steps move."""

    first: int
    last: int
    width: int
    theta: torch.Tensor
    extra: torch.Tensor
    optimiser: Optimiser

    def still(self, active: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what belongs to those who still train, the first ones; from now on nobody else does."""
        if active != self.theta.shape[0]:  # the same tensors as long as they are the same clients: networks keep views
            self.theta, self.extra = self.theta[:active], self.extra[:active]
        return self.theta, self.extra


def lanes(rows: Sequence[int], width: int, weights: int) -> list[tuple[int, int, int]]:
    """Cut clients, given by falling number of rows, where batches are at most half full: first, last and width of each.

    >>> lanes([500, 64, 20, 10], width=64, weights=1)
    [(0, 4, 64)]
    >>> lanes([500, 64, 20, 10], width=64, weights=1 << 16)
    [(0, 2, 64), (2, 4, 20)]
    """
    found: list[tuple[int, int, int]] = []
    first = 0
    while True:
        last = next((k for k in range(first, len(rows)) if 2 * rows[k] <= width), len(rows))
        if last == len(rows) or (len(rows) - last) * (width - rows[last]) * weights < _WORTH:
            return [*found, (first, len(rows), width)]
        found.append((first, last, width))
        first, width = last, rows[last]


class StageRun:
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
        sizes = [len(job.train) for job in jobs]
        shuffled = [job.client for job, size in zip(jobs, sizes, strict=True) if size > settings.batch_size]
        self.plan: Schedule = schedule(
            sizes,
            settings.epochs if stages[0].epochs is None else stages[0].epochs,
            settings.batch_size,
            generators(jobs[0].seed, [jobs[0].round], shuffled, ["batches", number]),
        )
        again = self.plan.active[1] if len(self.plan.active) > 1 else 0
        self.rows = self._in_order([job.train for job in jobs], torch.int64)
        self.labels = trainer.rows.y.index_select(0, self.rows.flatten()).view(self.rows.shape)
        mean = torch.as_tensor(self.plan.weight, dtype=trainer.dtype)
        self.logits = torch.zeros_like(mean)
        self._weigh(stages, mean)
        size = trainer.network.layout.trainable
        whole = size == weights.shape[1]
        self.theta, self.extra = weights if whole else weights[:, :size].contiguous(), weights[:, size:].contiguous()
        self.anchor = received[:, :size]
        pulls = [stage.proximal for stage in stages]
        self.proximal = torch.tensor(pulls, dtype=trainer.dtype).unsqueeze(1) if any(pulls) else None
        self.players: Players | None = None
        self.scale: torch.Tensor | None = None
        if stages[0].game is not None:
            self.players = self._play([stage.game for stage in stages if stage.game is not None])
            self.scale = mean * self.players.size[torch.as_tensor(self.plan.client)]
        width = self.rows.shape[1]
        cut = lanes(sizes, width, size) if self.players is None else [(0, len(jobs), width)]
        self.lanes = [self._lane(stages, again, *each) for each in cut]

    def _in_order(self, values: Sequence[np.ndarray[Any, Any]], dtype: torch.dtype) -> torch.Tensor:
        """Lay out one value for each row of a client as the steps need them: ``[batches, width]``."""
        return torch.as_tensor(np.concatenate(values)[self.plan.position], dtype=dtype)

    def _weigh(self, stages: list[Stage], mean: torch.Tensor) -> None:
        """Put together what the loss has of each row, from what makes it a mean over the rows of a batch."""
        self.loss_weight = mean
        for given in (
            [stage.sample_weight for stage in stages],
            [self.trainer.class_weights(job.train) for job in self.jobs],
        ):
            if given[0] is not None:
                self.loss_weight = self.loss_weight * self._in_order([v for v in given if v is not None], mean.dtype)
        self.tilt: torch.Tensor | None = None
        self.pull = self.loss_weight
        coefficients = [stage.probability_coefficient for stage in stages]
        if coefficients[0] is not None:
            self.tilt = mean * self._in_order([c for c in coefficients if c is not None], mean.dtype)
            # d/ds of w·BCE + t·σ: w·(σ − y) + t·σ·(1 − σ) = (σ − y)·(w + t·(1 − y) − t·σ), as y is 0 or 1.
            self.pull = torch.addcmul(self.loss_weight, self.tilt, 1 - self.labels)

    def _play(self, games: list[Game]) -> Players:
        jobs, draws = self.jobs, games[0].iterate == "random"
        return Players(
            games,
            self.trainer.network,
            self.trainer.rows,
            [job.train for job in jobs],
            [job.validation for job in jobs],
            steps=self.plan.steps,
            generators=[generator(job.seed, job.round, job.client, "iterate") for job in jobs] if draws else None,
        )

    def _lane(self, stages: list[Stage], again: int, first: int, last: int, width: int) -> _Lane:
        """Let some clients, of whom the first ones take a second step, train by themselves."""
        scales = [stage.lr_scale for stage in stages[first:last]]
        lr: torch.Tensor | float = self.settings.lr * scales[0]
        if len(set(scales)) > 1:
            lr = self.settings.lr * torch.tensor(scales, dtype=self.theta.dtype).unsqueeze(1)
        optimiser = Optimiser(self.settings, lr, max(0, min(again, last) - first))
        if last - first == len(stages):
            return _Lane(first, last, width, self.theta, self.extra, optimiser)
        return _Lane(first, last, width, self.theta[first:last], self.extra[first:last], optimiser)

    @torch.no_grad()
    def execute(self) -> torch.Tensor:
        """Run all steps; return each client's mean training loss on the way."""
        with self._seeded():
            if self.players is not None:
                self.players.start(self.theta, self.extra)
            with torch.inference_mode() if self.trainer.network.by_hand else nullcontext():
                for lane, step, batch in self._batches():
                    self._step(lane, step, *batch)
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

    def _inputs(self, rows: torch.Tensor, first: int) -> torch.Tensor:
        x = self.trainer.rows.inputs(rows)
        if not self.augmenters:
            return x
        pairs = zip(x, self.augmenters[first:], strict=False)
        return torch.stack([augmented(each, self.settings.augment, rng) for each, rng in pairs])

    def _stretches(self, numbers: int) -> Iterator[tuple[int, int]]:
        """Cut the steps, first to last, so that so many numbers of each row of a stretch are not too many."""
        active = self.plan.active
        most = max(1, KEPT // max(1, self.rows.shape[1] * numbers * active[0])) if active else 1
        for first in range(0, len(active), most):
            yield first, min(first + most, len(active))

    def _masks(self) -> Iterator[Sequence[torch.Tensor]]:
        """Yield the masks of each step, drawn for many steps at once: a generator takes a while to make."""
        drops = self.trainer.network.drops if self.trainer.together else ()
        if not drops:
            yield from [()] * len(self.plan.active)
            return
        filled, begins = self.plan.filled.tolist(), [0, *accumulate(self.plan.active)]
        stretches = list(self._stretches(sum(prod(drop.shape) for drop in drops)))
        kept = [self._generator(job, "network") for job in self.jobs] if len(stretches) > 1 else []
        job, names = self.jobs[0], [other.client for other in self.jobs]
        for first, last in stretches:
            active, begin = self.plan.active[first:last], begins[first]
            rngs = kept[: active[0]] or generators(job.seed, [job.round], names[: active[0]], ["network", self.number])
            held = (
                [
                    (at + k - begin, filled[at + k])
                    for at, many in zip(begins[first:last], active, strict=True)
                    if k < many
                ]
                for k in range(active[0])
            )
            found = drawn(drops, rngs, held, sum(active), self.rows.shape[1])
            cut = [mask.to(self.labels.device, self.trainer.dtype).split(active) for mask in found]
            yield from zip(*cut, strict=True)

    def _cells(self) -> Iterator[torch.Tensor | None]:
        """Yield a game's cells of each step, scaled: made for many steps at once, but not for any number of them."""
        if self.scale is None:
            yield from [None] * len(self.plan.active)
            return
        cells, width = self.trainer.rows.cells, self.rows.shape[1]
        begins = [0, *accumulate(self.plan.active)]
        for first, last in self._stretches(cells.shape[1]):
            part = slice(begins[first], begins[last])
            found = cells.index_select(0, self.rows[part].flatten()).view(-1, width, cells.shape[1])
            yield from found.mul_(self.scale[part].unsqueeze(2)).split(self.plan.active[first:last])

    def _batches(self) -> Iterator[tuple[_Lane, int, tuple[Any, ...]]]:
        """Yield what `_step` takes, of each step: first of everybody's, lane by lane."""
        active, widest = self.plan.active, self.rows.shape[1]
        values = [self.rows, self.labels, self.logits, self.pull, self.tilt]
        cut = [[None] * len(active) if v is None else v.split(active) for v in values]
        for step, (*parts, masks) in enumerate(zip(*cut, self._cells(), self._masks(), strict=True)):
            for lane in self.lanes:
                if lane.first >= active[step]:
                    break
                width = min(lane.width, self.plan.fullest[step])
                if self.trainer.together and widest - width < widest // _LITTLE:
                    width = widest  # but one client by itself has no padding at all, which would enter BatchNorm
                if width == widest and active[step] <= lane.last:
                    yield lane, step, (*parts, *masks)
                else:
                    yield lane, step, tuple(_part(each, lane, width) for each in (*parts, *masks))

    def _step(
        self,
        lane: _Lane,
        step: int,
        rows: torch.Tensor,
        y: torch.Tensor,
        seen: torch.Tensor,
        pull: torch.Tensor,
        tilt: torch.Tensor | None,
        cells: torch.Tensor | None,
        *masks: torch.Tensor,
    ) -> None:
        active = len(rows)
        x = self._inputs(rows, lane.first)
        theta, extra = lane.still(active)
        logits, pullback = self.trainer.network.forward(theta, extra, x, *masks)
        seen.copy_(logits)
        probability = torch.sigmoid(logits)
        slope = (probability - y).mul_(pull if tilt is None else torch.addcmul(pull, tilt, probability, value=-1))
        if self.players is not None and cells is not None:
            slope = self.players.play(slope, logits, probability, cells)
        grad = pullback(slope)
        if self.proximal is not None:
            who = slice(lane.first, lane.first + active)
            grad += self.proximal[who] * (theta - self.anchor[who])
        lane.optimiser.step(theta, grad)
        if self.players is not None:
            self.players.observe(step, self.theta, self.extra, active)


def _part(value: torch.Tensor | None, lane: _Lane, width: int) -> torch.Tensor | None:
    """Return a lane's part of a step's values, one for each row of each client."""
    return None if value is None else value[lane.first : lane.last, :width]
