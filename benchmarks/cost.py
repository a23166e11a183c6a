"""What GLocalFair costs beside FedAvg: the same clients, rows and local steps, logging and evaluation on."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.clock import Laps, report
from benchmarks.processes import measure
from benchmarks.table import Line, middle, ratio
from glocalfair.config import build
from glocalfair.experiment import Experiment
from glocalfair.runs import RunDirectory
from glocalfair.types import Attribute, Client, Federation


class Small(torch.nn.Module):
    """A small convolutional network for 3 × 32 × 32 pictures."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, stride=2, padding=1), torch.nn.ReLU(),
            torch.nn.Conv2d(16, 32, 3, stride=2, padding=1), torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(512, 1),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one logit for each picture."""
        return self.net(x)[:, 0]


def pictures(rows: int, clients: int = 4) -> Federation:
    """Random pictures whose brightness gives the label away, dealt out evenly."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, rows)
    x = np.clip(rng.normal(110 + 30 * y[:, None, None, None], 50, (rows, 3, 32, 32)), 0, 255).astype(np.uint8)
    held = np.array_split(np.arange(rows), clients)
    cut = [np.split(part, [int(0.7 * len(part)), int(0.8 * len(part))]) for part in held]
    return Federation(
        name="pictures",
        x=x,
        y=y,
        groups=rng.integers(0, 2, (rows, 2)),
        attributes=(Attribute("a", ("a0", "a1")), Attribute("b", ("b0", "b1"))),
        clients=tuple(Client(f"c{k}", *parts) for k, parts in enumerate(cut)),
        test=np.arange(min(rows, 500)),
    )


def main(kind: str, method: str, rounds: str, rows: str) -> None:
    """Train and report the time of a round."""
    torch.set_num_threads(1)
    values: dict[str, Any] = {
        "train": {"rounds": int(rounds), "participation": 1.0, "epochs": 1},
        "method": {"name": method},
    }
    if kind == "pictures":
        # As the experiments on pictures that come with the package: clients' own models are not measured every round.
        config = build({**values, "data": {"name": "own"}, "run": {"evaluate_clients": False}})
        ready = Experiment.prepare(config, pictures(int(rows)), Small)
    else:
        data = {"data": {"name": "adult"}, "partition": {"name": "dirichlet", "clients": 8}}
        config = build({**values, **data})
        ready = Experiment.prepare(config)
    laps = Laps()
    with tempfile.TemporaryDirectory() as folder:
        directory = RunDirectory.create(Path(folder) / "run", config)
        laps.mark()
        ready.complete(directory, on_round=lambda record: laps.mark())
    # GLocalFair's dual starts to move after a sixth of the rounds: only then does it cost what it costs.
    report(laps.median(skip=max(2, int(rounds) // 3)))


def lines(rounds: int, rows: int, repetitions: int) -> Iterator[Line]:
    """Compare on a table and on pictures."""
    for kind, name in (("adult", "Adult, 8 clients"), ("pictures", f"{rows:,} pictures, 4 clients")):
        found: dict[str, list[dict[str, Any]]] = {"fedavg": [], "glocalfair": [], "glocalfair-paper": []}
        for _ in range(repetitions):
            for method, results in found.items():
                results.append(measure("cost", kind, method, rounds, rows))
        detail = ", ".join(f"{method} {1000 * middle(results):.0f} ms" for method, results in found.items())
        yield Line("2 GLocalFair", f"GLocalFair / FedAvg, {name}", ratio(found["glocalfair"], found["fedavg"]),
                   target=1.5, better="less", note=f"CPU a round: {detail}")  # fmt: skip
        # The published form trains twice as many steps: an epoch without and one with constraints.
        yield Line("2 GLocalFair", f"as published, for as many steps / FedAvg, {name}",
                   ratio(found["glocalfair-paper"], found["fedavg"]) / 2, target=1.5, better="less")  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
