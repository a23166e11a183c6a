"""What the golden figures are taken from: every method and variant of the contract suite, a few rounds in float64."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from glocalfair import registry
from glocalfair.runs import jsonable
from tests.contract.test_methods import CASES
from tests.federations import awkward, drawn, play, simulator

FOLDER = Path(__file__).parent
ROUNDS = 4
TOLERANCE = 1e-9
FEDERATIONS = {"drawn": drawn(3, clients=6), "awkward": awkward(3)}
KEPT = ("loss", "validation", "client_models")


def variants(name: str) -> list[dict[str, Any]]:
    """Return the settings under which a method is recorded, its defaults first."""
    return [values for method, values in CASES if method == name]


def path(name: str) -> Path:
    """Return the file of a method's golden figures."""
    return FOLDER / f"{name}.json"


def figures(name: str) -> list[dict[str, Any]]:
    """Train a method in each of its variants on each federation and return the figures that must not move."""
    return [_train(name, values, place) for values in variants(name) for place in FEDERATIONS]


def _train(name: str, values: dict[str, Any], place: str) -> dict[str, Any]:
    sim = simulator(registry.method(name, values), FEDERATIONS[place], participation=0.67, rounds=ROUNDS)
    state, records = play(sim, ROUNDS)
    rounds = [
        {**{key: record[key] for key in KEPT if key in record}, **_server(record["server"])} for record in records
    ]
    kept = {client: {key: _summary(value) for key, value in own.items()} for client, own in state.clients.items()}
    made = {
        "settings": values,
        "federation": place,
        "weights": sim.final_weights(state),
        "clients": kept,
        "rounds": rounds,
    }
    # Through JSON once, so that fresh figures look like recorded ones.
    recorded: dict[str, Any] = json.loads(json.dumps(jsonable(made)))
    return recorded


def _server(log: Any) -> dict[str, Any]:
    return {key: log[key] for key in ("coefficients", "gini") if key in log}


def _summary(value: Any) -> Any:
    """Sum and sum of squares of an array: enough to see that a dual or a personal model has moved."""
    return [value.sum(), (value**2).sum()] if isinstance(value, np.ndarray) else value


def first_difference(old: Any, new: Any, place: str = "") -> str:
    """Say where two nested values differ first by more than the tolerance; empty if nowhere.

    >>> first_difference({"a": [1.0, 2.0]}, {"a": [1.0, 2.1]})
    'a[1]: 2.0, now 2.1'
    """
    if isinstance(old, dict) and isinstance(new, dict):
        keys = sorted({*old, *new})
        return next(filter(None, (first_difference(old.get(k), new.get(k), f"{place}.{k}") for k in keys)), "")
    if isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            return f"{place.removeprefix('.') or 'the list'}: {len(old)} entries, now {len(new)}"
        pairs = enumerate(zip(old, new, strict=True))
        return next(filter(None, (first_difference(a, b, f"{place}[{i}]") for i, (a, b) in pairs)), "")
    if isinstance(old, float) and isinstance(new, float):
        if math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            return ""
    elif old == new:
        return ""
    return f"{place.removeprefix('.')}: {old}, now {new}"
