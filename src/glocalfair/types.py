"""What crosses a boundary: frozen, made of arrays and scalars, free of behaviour.

Data → federation: `Attribute`, `Dataset`, `Client`, `Federation`.
Engine ↔ method: `ClientData`, `ClientInfo`, `Broadcast`, `Received`, `Stage`, `Trained`, `ClientUpdate`,
`ServerState`, `RoundContext`. Weights are one flat vector everywhere (see `glocalfair.layout`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from glocalfair.errors import invalid

if TYPE_CHECKING:
    from glocalfair.local.game import Game

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.integer[Any]]
Value = np.ndarray[Any, Any] | float | int | str
"""What a state, a broadcast or an update may hold: it must survive safetensors + JSON and a wire."""


# ---------------------------------------------------------------------------------------------- data


@dataclass(frozen=True)
class Attribute:
    """A sensitive attribute and its values, in code order: code 0 is ``values[0]``."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows before anybody holds them.

    Attributes
    ----------
    name
        For tables and messages.
    numeric
        Float matrix ``[rows, p]``; NaN is a missing value. Standardised later, on training rows alone.
    numeric_names
        A name for each numeric column.
    categorical
        Integer codes ``[rows, q]``; becomes one-hot columns later. A missing value is a category of its own.
    categories
        For each categorical column its name and the names of its codes.
    label
        0 or 1 for each row.
    groups
        Integer codes ``[rows, attributes]`` of the sensitive attributes.
    attributes
        The sensitive attributes, in column order of `groups`.
    owner
        Integer code of the natural client of each row, if the data has such a column, else None.
    owner_names
        The names of the codes in `owner`.
    images
        uint8 pictures ``[rows, channels, height, width]`` instead of (or beside) the two matrices, else None.
    unit
        Number of what must not be torn apart (a person with several pictures), for each row: all rows of a unit go
        to one part of one client, or to the global test set. None: every row by itself.
    about
        Plain values that go with the data, such as the schema of the user's own table.
    """

    name: str
    numeric: Floats
    numeric_names: tuple[str, ...]
    categorical: Ints
    categories: tuple[tuple[str, tuple[str, ...]], ...]
    label: Ints
    groups: Ints
    attributes: tuple[Attribute, ...]
    owner: Ints | None = None
    owner_names: tuple[str, ...] = ()
    images: npt.NDArray[np.uint8] | None = None
    unit: Ints | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.label)


@dataclass(frozen=True, eq=False)
class Client:
    """One organisation: a name and the row numbers of its three parts."""

    name: str
    train: Ints
    validation: Ints
    test: Ints

    def __len__(self) -> int:
        return len(self.train) + len(self.validation) + len(self.test)


@dataclass(frozen=True, eq=False)
class Federation:
    """Who holds what: encoded rows, clients sorted by name, and the global test set.

    Row numbers of `clients` and `test` index the arrays. `x` is float ``[rows, features]`` or uint8 pictures.
    Rows in neither a client nor the test set are unused (`unused` counts them). `about` holds plain values: how
    inputs are made of a table (``encoder``, ``schema``), and what was found in it (``profile``).
    """

    name: str
    x: npt.NDArray[Any]
    y: Ints
    groups: Ints
    attributes: tuple[Attribute, ...]
    clients: tuple[Client, ...]
    test: Ints
    feature_names: tuple[str, ...] = ()
    unused: int = 0
    about: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_frame(cls, frame: Any, **options: Any) -> Federation:
        """Make a federation of a polars or pandas frame; see `glocalfair.api.federation_from_frame`."""
        from glocalfair.api import federation_from_frame

        return federation_from_frame(frame, **options)

    def __repr__(self) -> str:
        protected = ", ".join(attribute.name for attribute in self.attributes) or "no groups"
        return f"<Federation {self.name}: {len(self.y):,} rows, {len(self.clients):,} clients, {protected}>"

    def client(self, name: str) -> Client:
        """Return the client of that name."""
        for client in self.clients:
            if client.name == name:
                return client
        raise KeyError(name)


# -------------------------------------------------------------------------------------------- method

_MANY = 256
"""Of more combinations of label and groups than this, those that occur are numbered."""


@dataclass(frozen=True, eq=False)
class ClientData:
    """What a method may know of a client's training part: labels and groups, never features."""

    name: str
    y: Ints
    groups: Ints
    attributes: tuple[Attribute, ...]
    _whole: tuple[ClientData, int] | None = field(default=None, init=False, repr=False)
    """What this was cut from, and where it begins there; not handed on by `dataclasses.replace`."""

    def __len__(self) -> int:
        return len(self.y)

    def cut(self, names: Sequence[str], sizes: Sequence[int]) -> list[ClientData]:
        """Return what several clients hold, whose rows follow each other here: what is worked out is so for all."""
        parts, end = [], 0
        for name, size in zip(names, sizes, strict=True):
            start, end = end, end + size
            part = ClientData(name, self.y[start:end], self.groups[start:end], self.attributes)
            object.__setattr__(part, "_whole", (self, start))
            parts.append(part)
        return parts

    @cached_property
    def combinations(self) -> tuple[Ints, Ints]:
        """Return the combination of label and groups that each row is of, and where combinations count in a table.

        The table is by label and column: everybody, and the values of the attributes; the columns of label 1 follow
        those of label 0. A row counts as one of everybody and in each attribute: ``[1 + attributes, combinations]``.
        """
        sizes = tuple(len(attribute.values) for attribute in self.attributes)
        few = 2 * prod(sizes) <= _MANY
        if few and self._whole is not None:
            whole, start = self._whole
            kinds, columns = whole.combinations
            return kinds[start : start + len(self)], columns
        for attribute, codes in zip(self.attributes, self.groups.T, strict=True):
            if len(codes) and not 0 <= codes.min() <= codes.max() < len(attribute.values):
                rule = f"codes from 0 to {len(attribute.values) - 1} for '{attribute.name}'"
                raise invalid("groups", rule, (int(codes.min()), int(codes.max())))
        kinds = (self.y == 1).astype(np.int64)
        if not few:  # most of them nobody is of
            columns, kinds = np.unique(_columns(kinds, self.groups.T, sizes), axis=1, return_inverse=True)
            return kinds.ravel(), columns
        for size, codes in zip(sizes, self.groups.T, strict=True):
            kinds = kinds * size + codes.astype(np.int64)
        return kinds, _all_columns(sizes)


@lru_cache(maxsize=16)
def _all_columns(sizes: tuple[int, ...]) -> Ints:
    label, *groups = np.unravel_index(np.arange(2 * prod(sizes)), (2, *sizes))
    return _columns(label, groups, sizes)


def _columns(label: Ints, groups: Iterable[Ints], sizes: Sequence[int]) -> Ints:
    """Return the columns that rows of such labels and groups count in."""
    *first, all_of_them = np.cumsum([0, 1, *sizes]).tolist()
    within = [start + codes.astype(np.int64) for start, codes in zip(first, [0 * label, *groups], strict=True)]
    columns: Ints = np.stack(within) + all_of_them * label
    return columns


@dataclass(frozen=True, eq=False)
class ClientInfo:
    """Sent once, when a client enrols: the number of training examples and what the method declares."""

    examples: int
    payload: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainingSettings:
    """The local optimiser as every client runs it this round."""

    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 0.0
    epochs: int = 1
    batch_size: int = 64
    augment: Literal["none", "flip", "flip+shift"] = "none"


@dataclass(frozen=True)
class Combining:
    """How the server guards the combination of updates (`glocalfair.aggregation.robust`); the default is none."""

    combine: Literal["mean", "trimmed-mean", "median"] = "mean"
    """Each weight is combined over the clients by their coefficients: as mean, trimmed mean or median."""
    trim: float = 0.2
    """Share of the coefficients that a trimmed mean cuts off at each end."""
    clip: float = 0.0
    """The longest step ‖w_k − w‖ that a client may take; longer ones are shortened. 0 = as long as they like."""
    clip_by: Literal["median", "absolute"] = "median"
    """Whether `clip` is a multiple of the round's median step or a length."""


@dataclass(frozen=True)
class RoundContext:
    """What everybody knows about a round. Rounds count from 1; `participants` is sorted."""

    round: int
    rounds: int
    seed: int
    participants: tuple[str, ...]
    training: TrainingSettings
    trainable: int
    """The first `trainable` entries of a weight vector are trained; the rest are frozen or BatchNorm statistics."""
    combining: Combining = Combining()


@dataclass(frozen=True, eq=False)
class Broadcast:
    """Server → client: the global weights and what the method adds for this client."""

    weights: Floats
    payload: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Received:
    """The received model on the client's own training rows, measured once before training.

    `logits` is None unless the method asks for it (`Method.uses_received`): it costs a forward pass. The validation
    part comes with it, for diagnostics.
    """

    data: ClientData
    training: TrainingSettings
    round: int
    logits: Floats | None = None
    validation: ClientData | None = None
    validation_logits: Floats | None = None
    rounds: int = 0
    """How many rounds the run is to have."""
    weights: Floats | None = None
    """The received model itself."""
    trainable: int | None = None
    """How many of the weights are trained; None for all."""

    @cached_property
    def totals(self) -> Floats:
        """False negatives, positives, false positives and negatives of the received model."""
        assert self.logits is not None
        accepted, positive = self.logits > 0, self.data.y == 1
        positives, caught, all_accepted = positive.sum(), (positive & accepted).sum(), accepted.sum()
        return np.array([positives - caught, positives, all_accepted - caught, len(positive) - positives], dtype=float)


@dataclass(frozen=True, eq=False)
class Stage:
    """One stretch of local training, as the shared trainer executes it.

    Minimises ``mean_i [sample_weight_i · BCE_i + probability_coefficient_i · σ(s_i)]
    + proximal/2 · ‖w − received‖²`` with learning rate ``lr · lr_scale``; with a `game` also plays the dual.

    Attributes
    ----------
    notes
        What `Method.plan` wants to hand on to `Method.finish`; the trainer does not look at it.
    start
        ``"previous"`` (the stage before, or the received weights for the first), ``"received"``, or weights.
    """

    start: Literal["previous", "received"] | Floats = "previous"
    sample_weight: Floats | None = None
    probability_coefficient: Floats | None = None
    lr_scale: float = 1.0
    proximal: float = 0.0
    epochs: int | None = None
    game: Game | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)


LocalPlan = tuple[Stage, ...]


@dataclass(frozen=True, eq=False)
class Trained:
    """What the trainer hands back: the weights after each stage, the mean loss and the game's outcome."""

    weights: tuple[Floats, ...]
    loss: float
    steps: int
    game: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ClientUpdate:
    """Client → server: everything that leaves the client in a round."""

    client: str
    weights: Floats
    examples: int
    payload: Mapping[str, Value] = field(default_factory=dict)


ClientState = Mapping[str, Value]
"""Stays with the client between rounds."""

Diagnostics = Mapping[str, Any]
"""Never leaves the client: the simulator may show it, a site writes it to its own log."""

Log = Mapping[str, Any]
"""What the server writes about a round; JSON-serialisable."""


@dataclass(frozen=True, eq=False)
class ServerState:
    """The global weights and whatever the method keeps between rounds."""

    weights: Floats
    values: Mapping[str, Value] = field(default_factory=dict)
