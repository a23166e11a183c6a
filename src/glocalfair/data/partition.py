"""Partitions: which client holds which row.

A partition is one function ``(rows, spec, rng) -> Assignment``, entered in `PARTITIONS`. It sees labels,
attribute cells and natural owners, never features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from glocalfair.data.cells import Cells
from glocalfair.errors import GlocalfairError, invalid, unknown
from glocalfair.rng import generator
from glocalfair.types import Floats, Ints


@dataclass(frozen=True)
class PartitionSpec:
    """Who holds what.

    Attributes
    ----------
    name
        One of `PARTITIONS`.
    clients
        Number of clients K. `by_group` and `by_column` find their clients in the data and do not use it.
    alpha
        Heterogeneity of `dirichlet`, `power_law` and `sizes_dirichlet`: small is uneven, large is nearly IID.
    min_rows
        The least rows of a client, over all its parts. With 0, clients without rows are left out.
    mean, variance
        Of the client sizes of `sizes` and `sizes_dirichlet`.
    draws
        How many draws may fail `min_rows` before it is an error.
    """

    name: str = "by_group"
    clients: int = 4
    alpha: float = 0.5
    min_rows: int = 20
    mean: float = 900.0
    variance: float = 250.0
    draws: int = 100

    def __post_init__(self) -> None:
        if self.name not in PARTITIONS:
            raise unknown("partition", self.name, PARTITIONS)
        for name, least in (("clients", 1), ("min_rows", 0), ("draws", 1)):
            if getattr(self, name) < least:
                raise invalid(name, f"a whole number of at least {least}", getattr(self, name))
        for name in ("alpha", "mean"):
            if not 0 < getattr(self, name) < math.inf:
                raise invalid(name, "a positive number", getattr(self, name))
        if not 0 <= self.variance < math.inf:
            raise invalid("variance", "a number of at least 0", self.variance)


@dataclass(frozen=True, eq=False)
class Rows:
    """What a partition may look at, for each row."""

    label: Ints
    cells: Cells
    owner: Ints | None = None
    owner_names: tuple[str, ...] = ()
    size: Ints | None = None
    """How many rows of the data an entry stands for, where it is a unit (a person); None: each for one."""

    def __len__(self) -> int:
        return len(self.label)


@dataclass(frozen=True, eq=False)
class Assignment:
    """The client of each row, as a code into `names`; −1 is a row that nobody holds."""

    codes: Ints
    names: tuple[str, ...]

    def sizes(self, weight: Ints | None = None) -> Ints:
        """Return the number of rows of each client; an entry counts `weight` rows."""
        held = self.codes >= 0
        weights = None if weight is None else weight[held]
        return np.bincount(self.codes[held], weights, minlength=len(self.names)).astype(np.int64)


@dataclass(frozen=True)
class PartitionEntry:
    """A partition: its function, one line about it, the `PartitionSpec` fields it uses, whether it draws."""

    function: Callable[[Rows, PartitionSpec, np.random.Generator], Assignment]
    description: str
    options: tuple[str, ...] = ()
    random: bool = True


def _numbered(clients: int) -> tuple[str, ...]:
    width = max(2, len(str(clients - 1)))
    return tuple(f"client-{i:0{width}d}" for i in range(clients))


def by_group(rows: Rows, spec: PartitionSpec, rng: np.random.Generator) -> Assignment:
    """One client for each attribute cell."""
    return Assignment(rows.cells.codes, rows.cells.names)


def by_column(rows: Rows, spec: PartitionSpec, rng: np.random.Generator) -> Assignment:
    """The natural clients of the data."""
    if rows.owner is None:
        raise GlocalfairError("Partition 'by_column' needs data with a client column, and these data have none.")
    return Assignment(rows.owner, rows.owner_names)


def iid(rows: Rows, spec: PartitionSpec, rng: np.random.Generator) -> Assignment:
    """Rows dealt like cards."""
    codes = np.empty(len(rows), dtype=np.int32)
    codes[rng.permutation(len(rows))] = np.arange(len(rows)) % spec.clients
    return Assignment(codes, _numbered(spec.clients))


def sizes(rows: Rows, spec: PartitionSpec, rng: np.random.Generator) -> Assignment:
    """Clients of random sizes with given mean and variance, rows at random; the rest is nobody's.

    The sizes are gamma distributed, because a normal one with this mean and variance may be negative.
    """
    if spec.clients * spec.mean > len(rows):
        rule = f"at most rows / clients, here {len(rows)} / {spec.clients}"
        raise invalid("mean", rule, spec.mean, "Use a smaller 'mean' or fewer 'clients'.")
    drawn = np.full(spec.clients, spec.mean, dtype=float)
    if spec.variance > 0:
        scale = spec.variance / spec.mean
        drawn = rng.gamma(spec.mean / scale, scale, size=spec.clients)
    # The mean leaves room, one draw may not: then all clients shrink by the same factor.
    drawn *= min(1.0, len(rows) / drawn.sum())
    counts = np.diff(np.rint(np.cumsum(drawn)).astype(np.int64), prepend=0)
    codes = np.full(len(rows), -1, dtype=np.int32)
    if spec.name == "sizes":
        codes[rng.permutation(len(rows))[: counts.sum()]] = np.repeat(np.arange(spec.clients), counts)
        return Assignment(codes, _numbered(spec.clients))
    stock = [rng.permutation(np.flatnonzero(rows.cells.codes == cell)) for cell in range(len(rows.cells.names))]
    for client in rng.permutation(spec.clients):
        left = np.array([len(cell) for cell in stock])
        for cell, taken in enumerate(_mixed(counts[client], left, spec.alpha * len(stock), rows, rng)):
            codes[stock[cell][:taken]] = client
            stock[cell] = stock[cell][taken:]
    return Assignment(codes, _numbered(spec.clients))


def _mixed(count: int, left: Ints, concentration: float, rows: Rows, rng: np.random.Generator) -> Ints:
    """Draw how many rows of each cell a client takes: Dirichlet around the overall mix, within what is left."""
    overall = np.bincount(rows.cells.codes, minlength=len(left)) / len(rows)
    share = rng.dirichlet(np.maximum(concentration * overall, 1e-3))
    taken = np.zeros(len(left), dtype=np.int64)
    while (missing := count - int(taken.sum())) > 0:
        open_cells = taken < left
        # Where a wanted cell has run out, the others give more.
        weight = np.where(open_cells, share, 0.0)
        weight = weight / weight.sum() if weight.sum() > 0 else open_cells / open_cells.sum()
        ideal = np.cumsum(weight) * missing
        step = np.diff(np.rint(ideal).astype(np.int64), prepend=0)
        taken = np.minimum(taken + step, left)
    return taken


def dirichlet(rows: Rows, spec: PartitionSpec, rng: np.random.Generator) -> Assignment:
    """For each attribute cell, client shares drawn from Dir(α·1_K)."""
    shares = rng.dirichlet(np.full(spec.clients, spec.alpha), size=len(rows.cells.names))
    return _by_shares(rows, shares, rng)


def power_law(rows: Rows, spec: PartitionSpec, rng: np.random.Generator) -> Assignment:
    """For each attribute cell, client shares ∝ r^(−1/α), with r a random permutation of 1..K."""
    ranks = rng.permuted(np.tile(np.arange(1, spec.clients + 1), (len(rows.cells.names), 1)), axis=1)
    # In logarithms: K^(−1/α) underflows for small α, but the largest share is always of rank 1.
    shares = np.exp(-np.log(ranks) / spec.alpha)
    return _by_shares(rows, shares / shares.sum(axis=1, keepdims=True), rng)


def _by_shares(rows: Rows, shares: Floats, rng: np.random.Generator) -> Assignment:
    """Cut each cell's shuffled rows at the cumulated shares: every client within one row of its share."""
    codes = np.empty(len(rows), dtype=np.int32)
    order = np.argsort(rows.cells.codes, kind="stable")
    counts = np.bincount(rows.cells.codes, minlength=len(rows.cells.names))
    for mine, share in zip(np.split(order, np.cumsum(counts)[:-1]), shares, strict=True):
        edges = np.rint(np.cumsum(share) * len(mine)).astype(np.int64)
        edges[-1] = len(mine)
        codes[rng.permutation(mine)] = np.repeat(np.arange(len(share)), np.diff(edges, prepend=0))
    return Assignment(codes, _numbered(shares.shape[1]))


PARTITIONS: Mapping[str, PartitionEntry] = MappingProxyType(
    {
        "by_group": PartitionEntry(by_group, "one client for each combination of sensitive values", (), False),
        "by_column": PartitionEntry(by_column, "the natural clients of the data (a column)", (), False),
        "iid": PartitionEntry(iid, "equal sizes, rows at random", ("clients",)),
        "dirichlet": PartitionEntry(dirichlet, "shares of each attribute cell drawn from Dir(α)", ("clients", "alpha")),
        "power_law": PartitionEntry(
            power_law, "shares of each attribute cell fall with rank^(−1/α)", ("clients", "alpha")
        ),
        "sizes": PartitionEntry(
            sizes,
            "client sizes of given mean and variance, the rest unused",
            ("clients", "mean", "variance"),
        ),
        "sizes_dirichlet": PartitionEntry(
            sizes,
            "the same sizes, and each client's mix of attribute cells drawn from Dir(α) around the overall one",
            ("clients", "mean", "variance", "alpha"),
        ),
    }
)

_ADVICE = {
    "clients": "fewer 'clients'",
    "alpha": "a larger 'alpha'",
    "mean": "a larger 'mean'",
    "variance": "a smaller 'variance'",
}


def _total(rows: Rows) -> int:
    return len(rows) if rows.size is None else int(rows.size.sum())


def assign(rows: Rows, spec: PartitionSpec, seed: int) -> Assignment:
    """Draw a partition in which every client has `min_rows`, or say which one cannot.

    >>> cells = Cells(np.zeros(100, dtype=int), ("all",))
    >>> assign(Rows(np.zeros(100), cells), PartitionSpec("iid", clients=4), seed=0).sizes()
    array([25, 25, 25, 25])
    """
    entry = PARTITIONS[spec.name]
    best, least = None, -1
    # More clients than rows can serve: no draw will do, so one is enough to name a client.
    hopeless = not entry.random or ("clients" in entry.options and spec.clients * spec.min_rows > _total(rows))
    draws = 1 if hopeless else spec.draws
    for attempt in range(draws):
        drawn = entry.function(rows, spec, generator(seed, "partition", attempt))
        fewest = int(drawn.sizes(rows.size).min(initial=_total(rows)))
        if fewest >= spec.min_rows:
            return drawn
        if fewest > least:
            best, least = drawn, fewest
    assert best is not None
    name = best.names[int(np.argmin(best.sizes(rows.size)))]
    drawn_text = f" in the best of {draws} draws" if draws > 1 else ""
    advice = [_ADVICE[option] for option in entry.options] + ["a smaller 'min_rows'"]
    raise GlocalfairError(
        f"Partition '{spec.name}': client '{name}' holds {least} rows{drawn_text}, fewer than 'min_rows' "
        f"({spec.min_rows}). Use {', '.join(advice[:-1])}{' or ' if advice[:-1] else ''}{advice[-1]}."
    )
