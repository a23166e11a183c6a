"""Our own engine on the work, as a user runs it: an `Experiment` that writes its run directory."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from benchmarks.clock import Laps, report
from benchmarks.work import BATCH, DROPOUT, HIDDEN, LR, MOMENTUM, Work
from glocalfair.config import build
from glocalfair.experiment import Experiment
from glocalfair.local.trainer import Job, Trainer
from glocalfair.models import MLP
from glocalfair.runs import RunDirectory
from glocalfair.types import Attribute, Client, Federation, Trained, TrainingSettings


class Plain(torch.nn.Module):
    """The same network, unknown to the package: it takes the path of any module."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.net = MLP(inputs, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one logit for each row."""
        return self.net(x)


class Reshaped(Plain):
    """The same again, with an operation that only `torch.func.vmap` can do for many clients at once."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one logit for each row."""
        return self.net(x).reshape(-1)


class Branching(Plain):
    """The same again, with a decision that `torch.func.vmap` cannot make for many clients at once."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one logit for each row."""
        logits = self.net(x)
        return logits if torch.isfinite(logits).all() else torch.zeros_like(logits)


class Dropping(Plain):
    """With dropout, and again with an operation that only `torch.func.vmap` can do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one logit for each row."""
        first, second, last = self.net.layers
        hidden = torch.nn.functional.dropout(torch.relu(first(x)), DROPOUT, self.training)
        return last(torch.relu(second(hidden))).reshape(-1)


MODELS = {"mlp": None, "module": Plain, "vmap": Reshaped, "dropout": Dropping, "alone": Branching}


def federation(work: Work) -> Federation:
    """Clients that train on all their rows; a few rows double as the global test set, for the final tables."""
    none = np.empty(0, dtype=np.int64)
    rows = np.arange(len(work.y))
    held = np.split(rows, work.edges[1:-1])
    return Federation(
        name="work",
        x=work.x,
        y=work.y,
        groups=(rows % 2)[:, None],
        attributes=(Attribute("parity", ("even", "odd")),),
        clients=tuple(Client(f"c{k:06d}", part, none, none) for k, part in enumerate(held)),
        test=rows[:100],
    )


def counting() -> list[int]:
    """Have the trainer tell how many steps each client takes."""
    taken: list[int] = []
    train = Trainer.train

    def told(self: Trainer, jobs: Sequence[Job], settings: TrainingSettings) -> list[Trained]:
        trained = train(self, jobs, settings)
        taken.extend(each.steps for each in trained)
        return trained

    setattr(Trainer, "train", told)  # noqa: B010
    return taken


def main(path: str, rounds: str, per_round: str, kind: str) -> None:
    """Train and report the time of a round, who took part and the final weights' loss."""
    torch.set_num_threads(1)
    work = Work.load(Path(path))
    share = int(per_round) / (len(work.edges) - 1)
    config = build(
        {
            "model": {"hidden": list(HIDDEN)},
            "train": {
                "rounds": int(rounds),
                "participation": share,
                "batch_size": BATCH,
                "lr": LR,
                "momentum": MOMENTUM,
            },
            "method": {"name": "fedavg"},
        }
    )
    ready = Experiment.prepare(config, federation(work), MODELS[kind])
    start = np.concatenate([w.ravel() for w in work.weights])
    ready = Experiment(**{**vars(ready), "initial": start})
    laps, drawn, taken = Laps(), [], counting()

    def on_round(record: dict) -> None:
        # The last round ends with the checkpoint of the run's end: in a longer run no part of most rounds.
        if record["round"] < int(rounds):
            laps.mark()
        drawn.append([int(name[1:]) for name in record["participants"]])

    with tempfile.TemporaryDirectory() as folder:
        directory = RunDirectory.create(Path(folder) / "run", config)
        laps.mark()
        finished = ready.complete(directory, on_round=on_round)
    cuts = np.cumsum([w.size for w in work.weights])[:-1]
    final = [p.reshape(w.shape) for p, w in zip(np.split(finished.weights, cuts), work.weights, strict=True)]
    mean = asdict(laps.mean(skip=2))
    report(laps.median(skip=2), mean=mean, participants=drawn, steps=sum(taken), loss=work.loss(tuple(final)))


if __name__ == "__main__":
    main(*sys.argv[1:])
