"""The short block before the training: who takes part, what is trained, what leaves a client."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from glocalfair.report.text import plural

FEW_STEPS, ENOUGH_STEPS = 200, 300
"""Below the first a small network has hardly left its start (30 rounds of one minibatch each); at the second it has."""

if TYPE_CHECKING:
    from glocalfair.config import TrainConfig
    from glocalfair.experiment import Experiment


def overview(ready: Experiment, path: Path) -> Table:
    """Lay out an experiment that is about to run."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for heading, text in _lines(ready, path):
        table.add_row(heading, Text(text))
    return table


def _lines(ready: Experiment, path: Path) -> list[tuple[str, str]]:
    federation, simulator, config = ready.federation, ready.simulator, ready.config
    method = simulator.method
    sizes = [len(client) for client in federation.clients]
    held = sum(sizes) + len(federation.test)
    unused = f" ({plural(federation.unused, 'row')} unused)" if federation.unused else ""
    trained = [len(client.train) for client in federation.clients if len(client.train)]
    taking_part = len(simulator.context(1).participants)
    told = [f"{d.text} (once)" if d.once else d.text for d in method.discloses()]
    return [
        ("Data", f"{federation.name}: {plural(held, 'row')}{unused}, of which {len(federation.test):,} test everybody"),
        ("Sensitive", "; ".join(f"{a.name} ({', '.join(a.values)})" for a in federation.attributes) or "none"),
        (
            "Clients",
            f"{len(sizes)} by '{config.partition.name}', the smallest with {min(sizes):,} rows, the largest with "
            f"{max(sizes):,}; {taking_part} train in a round",
        ),
        ("Model", f"{config.model.name}, {plural(simulator.network.layout.trainable, 'parameter')}"),
        *([("Look", advice)] if (advice := few_steps(config.train, trained)) else []),
        ("Method", f"{method.name}: {method.summary}"),
        ("Discloses", "; ".join(told)),
        ("Output", str(path)),
        ("", ""),
    ]


def few_steps(train: TrainConfig, rows: Sequence[int]) -> str:
    """Say if a client of middle size takes so few gradient steps that the model will hardly learn.

    Examples
    --------
    >>> from glocalfair.config import TrainConfig
    >>> few_steps(TrainConfig(rounds=30, epochs=2, participation=1.0), [20, 24, 30])
    'a client of middle size takes 60 steps in all, too few to learn much: --set train.epochs=10 makes them 300'
    >>> few_steps(TrainConfig(rounds=30, epochs=1), [8000, 9000])
    ''
    """
    each = train.rounds * train.participation * math.ceil(statistics.median(rows) / train.batch_size)
    steps = round(each * train.epochs)
    if steps >= FEW_STEPS:
        return ""
    epochs = math.ceil(ENOUGH_STEPS / each)
    return (
        f"a client of middle size takes {plural(steps, 'step')} in all, too few to learn much: "
        f"--set train.epochs={epochs} makes them {round(each * epochs):,}"
    )
