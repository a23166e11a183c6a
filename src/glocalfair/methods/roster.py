"""The server's memory of clients: arrays in the order of the sorted names, and the way from a name to its place.

Names are kept as one string, because arrays of strings do not fit into a checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from glocalfair.types import ClientInfo, ClientUpdate, Floats, Ints, ServerState, Value

CLIENTS = "clients"


def roster(infos: Mapping[str, ClientInfo]) -> tuple[dict[str, Value], Floats]:
    """Return what to put into the server state, and the number of examples of each client, sorted by name."""
    names = sorted(infos)
    examples = np.array([infos[name].examples for name in names], dtype=np.float64)
    return {CLIENTS: json.dumps(names)}, examples


def enrolled(infos: Mapping[str, ClientInfo], key: str) -> Floats:
    """Stack one payload of all clients, sorted by name."""
    return np.stack([np.asarray(infos[name].payload[key], dtype=np.float64) for name in sorted(infos)])


# A broadcast asks once for each client; reading 100,000 names each time would be quadratic.
@lru_cache(maxsize=8)
def _places(names: str) -> dict[str, int]:
    return {name: place for place, name in enumerate(json.loads(names))}


def place(state: ServerState, client: str) -> int:
    """Return the position of a client in the server's arrays."""
    names = state.values[CLIENTS]
    assert isinstance(names, str)
    return _places(names)[client]


def places(state: ServerState, updates: Sequence[ClientUpdate]) -> Ints:
    """Return the positions of the clients that sent updates."""
    return np.array([place(state, update.client) for update in updates], dtype=np.int64)


def array(values: Mapping[str, Value], key: str) -> Floats:
    """Return an array from a state or payload."""
    value = values[key]
    assert isinstance(value, np.ndarray), key
    return value


def column(updates: Sequence[ClientUpdate], key: str) -> Floats:
    """Stack one payload of all updates: a number gives a vector, an array one more axis."""
    return np.array([update.payload[key] for update in updates], dtype=np.float64)
