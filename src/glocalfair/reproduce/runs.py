"""The runs behind a table, named by their content: tables that need the same run share it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glocalfair import config as configuration
from glocalfair.compare.entries import Entry, Settings
from glocalfair.compare.jobs import Job, plan, repeats
from glocalfair.config import Config
from glocalfair.reproduce.spec import Budget, Row, Setting, Source, Table
from glocalfair.runs import jsonable


@dataclass(frozen=True)
class Federation:
    """One federation of a table: its configuration, its methods under the table's labels, and its runs."""

    setting: Setting
    config: Config
    entries: tuple[Entry, ...]
    jobs: tuple[Job, ...]


def configure(source: Source, setting: Setting, budget: Budget) -> Config:
    """Return the experiment of a federation; its ``[method]`` is not used."""
    values = {name: dict(section) for name, section in source.config.items()}
    values["partition"] = {**values.get("partition", {}), **setting.partition}
    if budget.rounds is not None:
        values["train"] = {**values.get("train", {}), "rounds": budget.rounds}
    values["method"] = {"name": "fedavg"}
    return configuration.build(values)


def _digest(values: Mapping[str, Any]) -> str:
    text = json.dumps(jsonable(values), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def place(root: Path, config: Config) -> Path:
    """Return the directory of a federation's runs: readable first, then a digest of everything but method and seed."""
    values = configuration.to_mapping(config)
    del values["method"], values["run"]["seed"]
    return root / f"{config.data['name']}-{config.partition.name}@{_digest(values)}"


def _entry(row: Row, source: Source, tuned: Settings) -> Entry:
    """Return the method of a row: a tuned strength applies to all rows of the method, the row's own settings win."""
    layers = (source.methods.get(row.method, {}), tuned.get(row.method, {}), row.settings)
    return Entry(row.label, row.method, {key: value for layer in layers for key, value in layer.items()})


def federations(table: Table, source: Source, budget: Budget, root: Path, tuned: Settings) -> tuple[Federation, ...]:
    """Plan the runs of a table, federation by federation."""
    return tuple(
        _federation(setting, configure(source, setting, budget), table.rows, source, budget, root, tuned)
        for setting in table.federations(source.name)
    )


def _federation(
    setting: Setting,
    config: Config,
    rows: Sequence[Row],
    source: Source,
    budget: Budget,
    root: Path,
    tuned: Settings,
) -> Federation:
    over = repeats(config, budget.seeds, None)
    entries = tuple(_entry(row, source, tuned) for row in rows)
    jobs = []
    for entry in entries:
        # A default that changes later changes the digest, so runs of another version are never mistaken for these.
        stored = replace(entry, label=f"{entry.method}@{_digest(entry.resolved())}")
        planned = plan(config, [stored], over, source.attributes, "per", place(root, config))
        jobs += [replace(job, label=entry.label) for job in planned]
    return Federation(setting, config, entries, tuple(jobs))


def distinct(parts: Sequence[Federation]) -> list[Job]:
    """Return every run once, seed by seed, so that what is interrupted has all methods of the first seeds."""
    jobs = {job.path: job for part in parts for job in part.jobs}
    return sorted(jobs.values(), key=lambda job: job.repeat)
