"""What GLocalFair costs beside FedAvg: the same clients, rows and local steps, logging and evaluation on."""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.clock import Laps, report
from benchmarks.ours import counting
from benchmarks.processes import measure
from benchmarks.table import Line, compared, took
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


MANY = {
    "hundred": (30, 100, "30 of 100 clients, five steps an epoch"),
    "thousand": (100, 1000, "100 of 1,000 clients, one step an epoch"),
}
"""Clients of a round and clients in all, who share 48,842 rows of a table."""
RUNS = {
    "fedavg": ("fedavg", 1),
    "glocalfair": ("glocalfair", 1),
    "fedavg, two epochs": ("fedavg", 2),
    "glocalfair-paper": ("glocalfair-paper", 1),
}
"""Method and epochs of each run. The published form trains an epoch without and one with constraints."""
PEERS = {"glocalfair": "fedavg", "glocalfair-paper": "fedavg, two epochs"}
"""What each is compared with: the same clients in each round, and as many steps of each."""
PART = "2 What GLocalFair costs"
TITLES = {"glocalfair": "GLocalFair / FedAvg", "glocalfair-paper": "as published / FedAvg, two epochs"}
BLOCK = 3
"""So many rounds a process runs before the next one has its turn: what disturbs the machine for seconds disturbs all of
them, and most rounds find the cache as the round before has left it."""


def prepared(kind: str, name: str, rounds: int, rows: int) -> Experiment:
    """Build a run on pictures, on Adult, or with many small clients."""
    method, epochs = RUNS[name]
    values: dict[str, Any] = {
        "train": {"rounds": rounds, "participation": 1.0, "epochs": epochs},
        "method": {"name": method},
    }
    if kind == "pictures":
        # As the experiments on pictures that come with the package: clients' own models are not measured every round.
        config = build({**values, "data": {"name": "own"}, "run": {"evaluate_clients": False}})
        return Experiment.prepare(config, pictures(rows), Small)
    if kind in MANY:
        chosen, clients, _ = MANY[kind]
        values["train"]["participation"] = chosen / clients
        data, partition = {"name": "synthetic", "rows": 48_842, "features": 100}, {"name": "iid", "min_rows": 1}
        return Experiment.prepare(build({**values, "data": data, "partition": {**partition, "clients": clients}}))
    return Experiment.prepare(
        build({**values, "data": {"name": "adult"}, "partition": {"name": "dirichlet", "clients": 8}})
    )


def run(name: str, kind: str, rounds: int, rows: int, turn: Connection) -> None:
    """Train some rounds whenever it is this process's turn, and tell at last how long a round took."""
    torch.set_num_threads(1)
    laps, drawn, taken = Laps(), [], counting()

    def on_round(record: Mapping[str, Any]) -> None:
        laps.mark()
        drawn.append(record["participants"])
        if record["round"] % BLOCK == 0:
            turn.send(None)
            turn.recv()
            laps.begin()

    turn.recv()
    ready = prepared(kind, name, rounds, rows)
    with tempfile.TemporaryDirectory() as folder:
        directory = RunDirectory.create(Path(folder) / "run", ready.config)
        laps.mark()
        ready.complete(directory, on_round=on_round)
    # GLocalFair's dual starts to move after a sixth of the rounds: only then does it cost what it costs. The mean,
    # because clients' own models are not measured in every round.
    turn.send({**asdict(laps.mean(skip=max(2, rounds // 3))), "work": [drawn, taken]})


def main(kind: str, rounds: str, rows: str) -> None:
    """Train each run in a process of its own, some rounds in turn, and report the time of a round."""
    # Forked: each would take seconds to import torch. Nothing has run yet that has threads.
    fork = multiprocessing.get_context("fork")
    turns: dict[str, Connection] = {}
    for name in RUNS:
        turns[name], theirs = fork.Pipe()
        fork.Process(target=run, args=(name, kind, int(rounds), int(rows), theirs), daemon=True).start()
        theirs.close()
    found: dict[str, dict[str, Any]] = {}
    while len(found) < len(RUNS):
        for name, turn in turns.items():
            if name not in found:
                turn.send("go")
                told = turn.recv()  # an EOFError if the process has failed
                if told is not None:
                    found[name] = told
    work = {name: each.pop("work") for name, each in found.items()}
    for ours, peer in PEERS.items():
        assert work[ours] == work[peer], f"{ours}: other clients or another number of steps than {peer}"
    report(runs=found)


def lines(
    rounds: int, rows: int, repetitions: int, many: Sequence[str] = tuple(MANY), longer: int = 10
) -> Iterator[Line]:
    """Compare on a table, on pictures, and, in `longer` runs, where clients train so little that all else shows."""
    kinds = {"adult": "Adult, 8 clients", "pictures": f"{rows:,} pictures, 4 clients"}
    kinds |= {kind: MANY[kind][-1] for kind in many}
    for kind, name in kinds.items():
        # Many clients' own models are measured every 60 rounds or so: a short run would show the last time alone.
        length = rounds * longer if kind in MANY else rounds
        turns = [measure("cost", kind, length, rows)["runs"] for _ in range(repetitions)]
        found = {run: [turn[run] for turn in turns] for run in RUNS}
        for ours, peer in PEERS.items():
            yield compared(PART, TITLES[ours], name, found[ours], found[peer], target=1.5, better="less")
        if kind != "pictures":
            clients = prepared(kind, "fedavg", 1, rows).federation.clients
            each = sum(len(client.train) for client in clients) / len(clients)
            alone = measure("limit", "glocalfair", each)["ratio"]
            yield Line(PART, "GLocalFair / FedAvg in products and sorting alone", name, alone)
        for run, results in found.items():
            yield took(PART, f"CPU of a round: {run}", name, results)


if __name__ == "__main__":
    main(*sys.argv[1:])
