"""What GLocalFair costs beside FedAvg: the same clients, rows and local steps, logging and evaluation on."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
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


METHODS = ("fedavg", "glocalfair", "glocalfair-paper")


class Relay:
    """Lets threads work one at a time, in turns: what disturbs the machine for a second disturbs all of them."""

    def __init__(self, runners: int) -> None:
        self._turn = [threading.Semaphore(0) for _ in range(runners)]
        self._running = list(range(runners))
        self._turn[0].release()

    def wait(self, runner: int) -> None:
        """Wait for one's turn."""
        self._turn[runner].acquire()

    def next(self, runner: int, finished: bool = False) -> None:
        """Give the turn to the next one."""
        place = self._running.index(runner)
        if finished:
            self._running.remove(runner)
        if self._running:
            self._turn[self._running[(place + (not finished)) % len(self._running)]].release()


def prepared(kind: str, method: str, rounds: int, rows: int) -> Experiment:
    """Build a run on pictures, on Adult, or with many small clients."""
    values: dict[str, Any] = {
        "train": {"rounds": rounds, "participation": 1.0, "epochs": 1},
        "method": {"name": method},
    }
    if kind == "pictures":
        # As the experiments on pictures that come with the package: clients' own models are not measured every round.
        config = build({**values, "data": {"name": "own"}, "run": {"evaluate_clients": False}})
        return Experiment.prepare(config, pictures(rows), Small)
    if kind == "many":
        values["train"]["participation"] = 0.1
        data, clients = {"name": "synthetic", "rows": 48_842, "features": 100}, {"name": "iid", "clients": 1000}
        return Experiment.prepare(build({**values, "data": data, "partition": {**clients, "min_rows": 1}}))
    return Experiment.prepare(
        build({**values, "data": {"name": "adult"}, "partition": {"name": "dirichlet", "clients": 8}})
    )


def main(kind: str, rounds: str, rows: str) -> None:
    """Train with each method, round by round in turn, and report the time of a round."""
    torch.set_num_threads(1)
    relay, laps = Relay(len(METHODS)), [Laps(time.thread_time) for _ in METHODS]

    def run(number: int) -> None:
        relay.wait(number)
        try:
            ready = prepared(kind, METHODS[number], int(rounds), int(rows))

            def on_round(record: Mapping[str, Any]) -> None:
                laps[number].mark()
                relay.next(number)
                relay.wait(number)

            with tempfile.TemporaryDirectory() as folder:
                directory = RunDirectory.create(Path(folder) / "run", ready.config)
                laps[number].mark()
                ready.complete(directory, on_round=on_round)
        finally:
            relay.next(number, finished=True)

    with ThreadPoolExecutor(len(METHODS)) as pool:
        list(pool.map(run, range(len(METHODS))))
    # GLocalFair's dual starts to move after a sixth of the rounds: only then does it cost what it costs. The mean,
    # because clients' own models are not measured in every round.
    found = [each.mean(skip=max(2, int(rounds) // 3)) for each in laps]
    report(found[0], methods={name: asdict(seconds) for name, seconds in zip(METHODS, found, strict=True)})


def lines(rounds: int, rows: int, repetitions: int, many: bool) -> Iterator[Line]:
    """Compare on tables (also with many small clients) and on pictures."""
    kinds = {
        "adult": "Adult, 8 clients",
        "many": "49 rows each, 100 of 1,000 clients",
        "pictures": f"{rows:,} pictures, 4 clients",
    }
    if not many:
        del kinds["many"]
    for kind, name in kinds.items():
        turns = [measure("cost", kind, rounds, rows)["methods"] for _ in range(repetitions)]
        found = {method: [turn[method] for turn in turns] for method in METHODS}
        detail = ", ".join(f"{method} {1000 * middle(results):.0f} ms" for method, results in found.items())
        yield Line("2 GLocalFair", f"GLocalFair / FedAvg, {name}", ratio(found["glocalfair"], found["fedavg"]),
                   target=1.5, better="less", note=f"CPU a round: {detail}")  # fmt: skip
        # The published form trains twice as many steps: an epoch without and one with constraints.
        yield Line("2 GLocalFair", f"as published, for as many steps / FedAvg, {name}",
                   ratio(found["glocalfair-paper"], found["fedavg"]) / 2, target=1.5, better="less")  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
