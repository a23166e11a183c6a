"""Run directories written by hand, so that the counts, and with them every sentence, are known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glocalfair.config import dump
from glocalfair.metrics import summarise
from glocalfair.metrics.tables import Tables
from glocalfair.runs import jsonable
from glocalfair.types import Attribute

Rates = tuple[float, float]
"""TPR and FPR of a group; each has 1000 positives and 1000 negatives in the global test set."""
FAIR: Rates = (0.7, 0.1)
HOSTILE = "<img src=x onerror=alert(1)>"


def table(rates: Sequence[Rates], size: int = 1000) -> np.ndarray[Any, Any]:
    """Return counts [groups, label, prediction] of groups with these rates."""
    cells = [[[size - round(size * f), round(size * f)], [size - round(size * t), round(size * t)]] for t, f in rates]
    return np.array(cells)


def write_run(
    path: Path,
    rates: Mapping[str, Rates],
    *,
    method: str = "fedavg",
    seed: int = 0,
    data: str = "adult",
    attribute: str = "sex",
    clients: Sequence[str] = ("north", "south"),
    one_group: Sequence[str] = (),
    rounds: int = 3,
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """Write a finished run; clients in `one_group` hold the first group alone."""
    attributes = (Attribute(attribute, tuple(rates)),)
    overall = Tables(attributes, table(list(rates.values()))[None])
    own = [table(list(rates.values()), 100) * (1 if c not in one_group else _first(len(rates))) for c in clients]
    local = Tables(attributes, np.array(own))
    result = {
        "method": method,
        "seed": seed,
        "seconds": 1.5,
        "rounds": rounds,
        **summarise(overall, local, list(clients), seed=seed, draws=50),
        "counts": {"global": overall.to_dict(), "local": local.to_dict()},
    }
    config = {
        "data": {"name": data},
        "partition": {"name": "dirichlet"},
        "train": {"rounds": rounds},
        "method": {"name": method, **(settings or {})},
        "run": {"seed": seed},
    }
    federation = {
        "names": [*clients, "(global test)"],
        "cells": list(rates),
        "counts": [[40 + 10 * i for i in range(len(rates))]] * (len(clients) + 1),
        "positives": [30] * (len(clients) + 1),
        "parts": [[60, 10, 20]] * (len(clients) + 1),
        "unused": 0,
    }
    path.mkdir(parents=True)
    (path / "config.toml").write_text(dump(config))
    (path / "result.json").write_text(json.dumps(jsonable(result)))
    (path / "federation.json").write_text(json.dumps(federation))
    records = [_record(number, method, clients, attribute, list(rates)) for number in range(1, rounds + 1)]
    (path / "rounds.jsonl").write_text("".join(json.dumps(jsonable(r)) + "\n" for r in records))
    return path


def _first(groups: int) -> np.ndarray[Any, Any]:
    return (np.arange(groups) == 0).astype(int)[:, None, None]


def _record(number: int, method: str, clients: Sequence[str], attribute: str, values: Sequence[str]) -> dict[str, Any]:
    told: dict[str, Any] = {"accuracy": 0.7 + 0.02 * number, "eod": {attribute: 0.2 / number}}
    record = {"round": number, "loss": 1 / number, "server": {}, "clients": {}, "validation": told}
    if not method.startswith("glocalfair"):
        return record
    gini = {name: 0.4 + 0.01 * i + 0.001 * number for i, name in enumerate(clients)}
    return record | {
        "server": {
            "gini": gini,
            "cluster": dict.fromkeys(clients, 0),
            "coefficients": dict.fromkeys(clients, 1 / len(clients)),
            "lorenz": {name: [0.0, 0.1 - 0.01 * i, 0.4, 1.0] for i, name in enumerate(clients)},
        },
        "clients": {
            name: {
                "constraints": {
                    "name": [f"fnr({attribute}={v})" for v in values],
                    "tau": [0.1] * len(values),
                    "violation": [0.1 / number] * len(values),
                    "multiplier": [0.1 * number] * len(values),
                }
            }
            for name in clients
        },
        "client_models": {name: {"eod": {attribute: 0.1 * i + 0.05 / number}} for i, name in enumerate(clients)},
    }


def write_pair(folder: Path, seeds: int = 2) -> Path:
    """Write FedAvg with a gap of 12 points in TPR and GLocalFair with 6."""
    for seed in range(seeds):
        write_run(folder / f"fedavg-{seed}", {"Female": (0.58, 0.08), "Male": (0.70, 0.10)}, seed=seed)
        fair = {"Female": (0.63, 0.09), "Male": (0.69, 0.10)}
        write_run(folder / f"glocalfair-{seed}", fair, method="glocalfair", seed=seed)
    return folder
