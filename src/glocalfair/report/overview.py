"""The short block before the training: who takes part, what is trained, what leaves a client."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from glocalfair.report.text import plural

if TYPE_CHECKING:
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
        ("Method", f"{method.name}: {method.summary}"),
        ("Discloses", "; ".join(told)),
        ("Output", str(path)),
        ("", ""),
    ]
