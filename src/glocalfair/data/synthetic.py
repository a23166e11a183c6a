"""Synthetic: a federation of any size whose unfairness is set by one number.

With `bias` ``b`` and the standing ``c_a ∈ [−½, ½]`` of a row's value of attribute ``a`` (lowest for code 0):

- **base rates**: ``score = x·w + b · Σ_a c_a + noise``, and the label is positive for the highest scores.
  Groups of low standing have fewer positives;
- **proxies**: column ``a`` of ``x`` is shifted by ``2 b · c_a``, so leaving the attributes out of the inputs
  does not hide them (``w`` is positive, so that proxies and base rates point the same way);
- **label noise**: the standard deviation of the noise is ``½ · (1 + b · mean_a (½ − c_a))``. The labels of
  low groups are harder to predict.

With ``b = 0`` groups are drawn independently of everything: a model's gaps are then sampling noise.
"""

from __future__ import annotations

import string
from dataclasses import dataclass

import numpy as np

from glocalfair.data.entry import DatasetEntry
from glocalfair.errors import invalid
from glocalfair.rng import generator
from glocalfair.types import Attribute, Dataset, Floats, Ints


@dataclass(frozen=True)
class SyntheticOptions:
    """Options of the data set `synthetic`.

    Attributes
    ----------
    rows, features
        Size of the table; the features are numeric.
    clients
        Natural clients (for the partition `by_column`). Each has at least one row.
    size_exponent
        Sizes of the natural clients ∝ rank^(−size_exponent); 0 gives equal sizes.
    attributes, values
        Number of sensitive attributes, named a, b, c …, and the number of values of each.
    bias
        0: none. 1: clear gaps in an unconstrained model. May be larger.
    positive_rate
        Share of rows with a positive label.
    sensitive_as_input
        Whether the model sees the sensitive attributes.
    seed
        Of the table. Partition, splits and training have the seed of the run.
    """

    rows: int = 10_000
    features: int = 10
    clients: int = 10
    size_exponent: float = 0.0
    attributes: int = 2
    values: int = 2
    bias: float = 1.0
    positive_rate: float = 0.3
    sensitive_as_input: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("rows", 1), ("features", 1), ("clients", 1), ("values", 2)):
            if getattr(self, name) < least:
                raise invalid(name, f"a whole number of at least {least}", getattr(self, name))
        if not 1 <= self.attributes <= 26:
            raise invalid("attributes", "a whole number from 1 to 26", self.attributes)
        if self.clients > self.rows:
            raise invalid("clients", f"at most 'rows' ({self.rows})", self.clients)
        for name in ("bias", "size_exponent"):
            if not 0 <= getattr(self, name) < np.inf:
                raise invalid(name, "a number of at least 0", getattr(self, name))
        if not 0 < self.positive_rate < 1:
            raise invalid("positive_rate", "between 0 and 1", self.positive_rate)


def _owners(options: SyntheticOptions, rng: np.random.Generator) -> Ints:
    shares = np.arange(1, options.clients + 1, dtype=float) ** -options.size_exponent
    # One row for everybody, the others by the power law; cumulated rounding keeps the total exact.
    edges = np.rint(np.cumsum(shares) / shares.sum() * (options.rows - options.clients)).astype(np.int64)
    sizes = 1 + np.diff(edges, prepend=0)
    return rng.permutation(np.repeat(np.arange(options.clients, dtype=np.int32), sizes))


def _labels(x: Floats, standing: Floats, options: SyntheticOptions) -> Ints:
    weights = np.abs(generator(options.seed, "synthetic", "weights").standard_normal(options.features))
    weights /= np.linalg.norm(weights)
    noise = generator(options.seed, "synthetic", "noise").standard_normal(options.rows)
    spread = 0.5 * (1 + options.bias * (0.5 - standing.mean(axis=1)))
    score = x @ weights.astype(np.float32) + options.bias * standing.sum(axis=1) + spread * noise
    positives = min(max(round(options.rows * options.positive_rate), 0), options.rows)
    label = np.zeros(options.rows, dtype=np.int64)
    label[np.argpartition(score, options.rows - positives - 1)[options.rows - positives :]] = 1
    return label


def load(options: SyntheticOptions) -> Dataset:
    """Draw the table.

    >>> data = load(SyntheticOptions(rows=1000, values=3, positive_rate=0.25))
    >>> data.attributes[0], int(data.label.sum())
    (Attribute(name='a', values=('a0', 'a1', 'a2')), 250)
    """
    draw = generator(options.seed, "synthetic", "rows")
    groups = draw.integers(options.values, size=(options.rows, options.attributes), dtype=np.int32)
    standing = groups / (options.values - 1) - 0.5
    x = draw.standard_normal((options.rows, options.features), dtype=np.float32)
    shifted = min(options.features, options.attributes)
    x[:, :shifted] += (2 * options.bias * standing[:, :shifted]).astype(np.float32)
    attributes = tuple(
        Attribute(letter, tuple(f"{letter}{value}" for value in range(options.values)))
        for letter in string.ascii_lowercase[: options.attributes]
    )
    as_input = options.sensitive_as_input
    return Dataset(
        name="synthetic",
        numeric=x,
        numeric_names=tuple(f"x{i}" for i in range(options.features)),
        categorical=groups if as_input else groups[:, :0],
        categories=tuple((a.name, a.values) for a in attributes) if as_input else (),
        label=_labels(x, standing, options),
        groups=groups,
        attributes=attributes,
        owner=_owners(options, generator(options.seed, "synthetic", "owners")),
        owner_names=tuple(f"site-{i:0{len(str(options.clients - 1))}d}" for i in range(options.clients)),
    )


DATASET = DatasetEntry(
    name="synthetic",
    description="random table of any size with natural clients and a controllable bias",
    options=SyntheticOptions,
    load=load,
    licence="none needed",
)
