"""Who holds what: a small table of a federation, for people."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glocalfair.data.cells import attribute_cells
from glocalfair.types import Federation, Ints

GLOBAL_TEST = "(global test)"


@dataclass(frozen=True, eq=False)
class Holdings:
    """Counts by client; the last row is the global test set, which belongs to no client.

    Attributes
    ----------
    names
        The clients and ``(global test)``.
    cells
        Names of the attribute cells that occur.
    counts
        Rows ``[names, cells]``.
    positives
        Rows with a positive label, for each name.
    parts
        Train, validation and test rows ``[names, 3]``.
    unused
        Rows that nobody holds.
    """

    names: tuple[str, ...]
    cells: tuple[str, ...]
    counts: Ints
    positives: Ints
    parts: Ints
    unused: int

    def render(self, limit: int = 20) -> str:
        """Return a plain text table with at most `limit` clients."""
        return render(self, limit)


def who_holds_what(federation: Federation) -> Holdings:
    """Count each client's rows by attribute cell, label and part.

    >>> from glocalfair.data import PartitionSpec, SplitSpec, build, load
    >>> data = load("synthetic", rows=1000, attributes=1)
    >>> federation, _ = build(data, PartitionSpec("by_group"), SplitSpec(), seed=0)
    >>> print(who_holds_what(federation).render())
    client         rows  train  validation  test  positive   a0   a1
    a0              437    306          44    87    14.6 %  437    0
    a1              463    324          46    93    44.5 %    0  463
    (global test)   100      0           0   100    30.0 %   49   51
    """
    cells = attribute_cells(federation.groups, federation.attributes)
    holders = [(c.train, c.validation, c.test) for c in federation.clients]
    empty = federation.test[:0]
    holders.append((empty, empty, federation.test))
    parts = np.array([[len(part) for part in three] for three in holders])
    rows = np.concatenate([part for three in holders for part in three])
    holder = np.repeat(np.arange(len(holders)), parts.sum(axis=1))
    width = len(cells.names)
    counts = np.bincount(holder * width + cells.codes[rows], minlength=len(holders) * width)
    return Holdings(
        names=(*(client.name for client in federation.clients), GLOBAL_TEST),
        cells=cells.names,
        counts=counts.reshape(len(holders), width),
        positives=np.bincount(holder[federation.y[rows] == 1], minlength=len(holders)),
        parts=parts,
        unused=federation.unused,
    )


def render(holdings: Holdings, limit: int = 20) -> str:
    """Return a plain text table with at most `limit` clients."""
    clients = len(holdings.names) - 1
    shown = [*range(min(clients, limit)), clients]
    header = ["client", "rows", "train", "validation", "test", "positive", *holdings.cells]
    table = [header]
    for i in shown:
        rows = int(holdings.parts[i].sum())
        rate = f"{100 * holdings.positives[i] / rows:.1f} %" if rows else "–"
        numbers = [f"{n:,}" for n in (*holdings.parts[i], *holdings.counts[i])]
        table.append([holdings.names[i], f"{rows:,}", *numbers[:3], rate, *numbers[3:]])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in table
    ]
    if clients > limit:
        lines.insert(-1, f"… and {clients - limit:,} more clients")
    if holdings.unused:
        lines.append(f"{holdings.unused:,} rows are unused")
    return "\n".join(lines)
