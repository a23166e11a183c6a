"""Puts a federation together: global test set, partition, local splits, encoding."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from glocalfair.data.cells import Cells
from glocalfair.data.encoder import Encoder
from glocalfair.data.partition import PartitionSpec, Rows, assign
from glocalfair.data.split import TEST, TRAIN, VALIDATION, SplitSpec, client_parts, global_test
from glocalfair.data.units import units_of
from glocalfair.errors import GlocalfairError
from glocalfair.memory import aligned
from glocalfair.types import Client, Dataset, Federation, Ints


def build(dataset: Dataset, partition: PartitionSpec, split: SplitSpec, seed: int) -> tuple[Federation, Encoder | None]:
    """Draw who holds what and encode the rows.

    Parameters
    ----------
    dataset
        The rows. With `Dataset.images` the pictures are the input and nothing is encoded.
    partition, split
        Who holds what, and the shares of the parts.
    seed
        Equal seeds give equal federations.

    Returns
    -------
    Federation, Encoder or None
        The encoder knows the training rows of all clients together and no other row.

    Examples
    --------
    >>> from glocalfair.data.registry import load
    >>> federation, encoder = build(load("synthetic", rows=1000), PartitionSpec("iid"), SplitSpec(), seed=0)
    >>> [(client.name, len(client.train)) for client in federation.clients[:2]], len(federation.test)
    ([('client-00', 158), ('client-01', 158)], 100)
    """
    check(dataset)
    units = units_of(dataset)
    tested = global_test(units.label, units.cells, split, seed)
    rest = np.flatnonzero(~tested)
    rows = Rows(
        label=units.label[rest],
        cells=_occurring(units.cells, rest),
        owner=None if units.owner is None else units.owner[rest],
        owner_names=dataset.owner_names,
        size=units.size[rest],
    )
    assignment = assign(rows, partition, seed)
    held = assignment.codes >= 0
    parts = client_parts(assignment.codes[held], rows.label[held], _occurring(rows.cells, held), split, seed)
    # From units to rows: who holds each row (−1: nobody), and in which part.
    holder = np.full(len(units.label), -1, dtype=np.int64)
    part = np.full(len(units.label), TRAIN, dtype=np.int8)
    holder[rest], part[rest[held]] = assignment.codes, parts
    holder, part, tested = holder[units.of_row], part[units.of_row], tested[units.of_row]
    mine = np.flatnonzero(holder >= 0)
    clients = _clients(mine, holder[mine], assignment.names, part[mine])
    encoder = Encoder.fit(dataset, mine[part[mine] == TRAIN]) if dataset.images is None else None
    x: npt.NDArray[Any] | None = encoder.transform(dataset) if encoder else dataset.images
    assert x is not None
    return Federation(
        name=dataset.name,
        x=x,
        y=dataset.label,
        groups=dataset.groups,
        attributes=dataset.attributes,
        clients=clients,
        test=np.flatnonzero(tested),
        feature_names=encoder.names if encoder else (),
        unused=len(dataset) - len(mine) - int(tested.sum()),
    ), encoder


def arranged(federation: Federation) -> Federation:
    """Lay rows out as they are used: all training parts, client by client, then the other parts, then all else.

    Rows that are used together lie side by side, and need not be looked for all over the memory: with a small model
    that takes longer than what is computed with them. Pictures stay where they are: to fetch one takes little beside
    what is done with it.
    """
    clients = federation.clients
    parts = [getattr(client, part) for part in ("train", "validation", "test") for client in clients]
    used = np.concatenate([*parts, federation.test])
    left = np.ones(len(federation.y), dtype=bool)
    left[used] = False
    shared = left.sum() + len(used) > len(left)  # a row in two parts would have to lie in two places
    if federation.x.ndim != 2 or shared or (used < 0).any() or np.array_equal(used, np.arange(len(used))):
        return federation
    order = np.concatenate([used, np.flatnonzero(left)])
    ends = [0, *np.cumsum([len(part) for part in parts]).tolist(), len(used)]
    numbers = [np.arange(start, end) for start, end in pairwise(ends)]
    x = aligned(federation.x.shape, federation.x.dtype)
    np.take(federation.x, order, axis=0, out=x, mode="clip")  # nothing to clip; to raise takes another copy
    count = len(clients)
    return replace(
        federation,
        x=x,
        y=federation.y[order],
        groups=federation.groups[order],
        clients=tuple(Client(c.name, *numbers[k : 3 * count : count]) for k, c in enumerate(clients)),
        test=numbers[-1],
    )


def _occurring(cells: Cells, rows: npt.NDArray[np.generic]) -> Cells:
    """Keep the chosen rows and number anew the cells that are left."""
    codes = cells.codes[rows]
    left = np.flatnonzero(np.bincount(codes, minlength=len(cells.names)))
    renumbered = np.full(len(cells.names), -1, dtype=np.int64)
    renumbered[left] = np.arange(len(left))
    return Cells(renumbered[codes], tuple(cells.names[code] for code in left))


def _clients(rows: Ints, holder: Ints, names: tuple[str, ...], parts: npt.NDArray[np.int8]) -> tuple[Client, ...]:
    """Cut the row numbers into three parts for each client that has rows, sorted by name."""
    key = holder.astype(np.int64) * 3 + parts
    # Stable, so row numbers ascend inside each part whatever the order of the clients.
    order = rows[np.argsort(key, kind="stable")]
    edges = np.concatenate([[0], np.cumsum(np.bincount(key, minlength=3 * len(names)))]).tolist()

    def part(code: int, which: int) -> Ints:
        return order[edges[3 * code + which] : edges[3 * code + which + 1]]

    return tuple(
        Client(name, part(code, TRAIN), part(code, VALIDATION), part(code, TEST))
        for name, code in sorted(zip(names, range(len(names)), strict=True))
        if edges[3 * code + 3] > edges[3 * code]
    )


def check(dataset: Dataset) -> None:
    """Refuse data that nothing here could work with."""
    if not len(dataset):
        raise GlocalfairError(f"Data '{dataset.name}' have no rows.")
    if not np.isin(dataset.label, (0, 1)).all():
        raise GlocalfairError("Binary classification only for now: the label must be 0 or 1 in every row.")
    if dataset.groups.shape != (len(dataset), len(dataset.attributes)):
        raise GlocalfairError(
            f"Data '{dataset.name}': 'groups' needs a row for each label and a column for each attribute."
        )
    for column, attribute in zip(dataset.groups.T, dataset.attributes, strict=True):
        if column.min() < 0 or column.max() >= len(attribute.values):
            raise GlocalfairError(f"Data '{dataset.name}': a code of '{attribute.name}' has no name in its values.")
    if len(set(dataset.owner_names)) < len(dataset.owner_names):
        raise GlocalfairError(f"Data '{dataset.name}': two clients have the same name.")
