"""The runs of a comparison: for each its complete configuration and its place on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from glocalfair import config as configuration
from glocalfair.compare.entries import Entry
from glocalfair.config import Config
from glocalfair.errors import GlocalfairError, invalid, unknown
from glocalfair.methods.groups import INTERSECTION
from glocalfair.registry import method as make_method
from glocalfair.runs import RunDirectory

SAFE = " =,+@"
"""Letters beside the plain ones that may stand in the name of a directory."""

Kind = Literal["seed", "fold"]
Protection = Literal["per", "intersection"]


@dataclass(frozen=True)
class Repeats:
    """What is varied between equal runs: the seed, or the test fold."""

    kind: Kind
    numbers: tuple[int, ...]

    def configs(self, config: Config) -> Iterator[tuple[int, Config]]:
        """Give the number and the configuration of each repeat."""
        for number in self.numbers:
            if self.kind == "seed":
                yield number, replace(config, run=replace(config.run, seed=number))
            else:
                yield number, replace(config, split=replace(config.split, folds=len(self.numbers), fold=number))


def repeats(config: Config, seeds: int | None, folds: int | None) -> Repeats:
    """Return so many seeds, from the experiment's own one on, or the rotating test folds.

    >>> repeats(Config(), 3, None)
    Repeats(kind='seed', numbers=(0, 1, 2))
    """
    if folds is not None:
        if seeds is not None:
            raise GlocalfairError("Give either '--seeds' or '--folds': a comparison repeats over one of them.")
        if folds < 2:
            raise invalid("--folds", "a whole number of at least 2", folds)
        return Repeats("fold", tuple(range(folds)))
    seeds = 5 if seeds is None else seeds
    if seeds < 1:
        raise invalid("--seeds", "a whole number of at least 1", seeds)
    return Repeats("seed", tuple(range(config.run.seed, config.run.seed + seeds)))


@dataclass(frozen=True)
class Job:
    """One run: what it is in the comparison, what it does, where it is kept."""

    label: str
    attribute: str | None
    """The attribute that a single-attribute method protects in this run, where it runs once for each."""
    repeat: int
    config: Config
    path: Path

    @property
    def name(self) -> str:
        """What an error or a progress bar calls the run."""
        return "/".join(self.path.parts[-3 if self.attribute else -2 :])

    @property
    def averaged(self) -> int:
        """Over how many of the last global models the final one is averaged; early stopping keeps the best instead."""
        train = self.config.train
        made = make_method(self.config.method["name"], {k: v for k, v in self.config.method.items() if k != "name"})
        return 1 if train.early_stopping else min(train.average_last or made.averaged(train.rounds), train.rounds)

    def finished(self) -> bool:
        """Whether the run is complete; one with another configuration in its place is an error."""
        directory = RunDirectory(self.path)
        if not directory.config.exists():
            return False
        # Built once more: a run from before a setting existed has used its default.
        before = configuration.to_mapping(configuration.build(configuration.read(str(directory.config))))
        change = first_change(before, configuration.to_mapping(self.config))
        if change:
            raise GlocalfairError(
                f"'{self.path}' holds a run with other settings ({change}). Choose another --output or remove it."
            )
        return directory.result.exists()


def first_change(old: Any, new: Any, prefix: str = "") -> str:
    """Say where two nested mappings differ first; empty if they are equal.

    >>> first_change({"train": {"lr": 0.1, "rounds": 3}}, {"train": {"lr": 0.1, "rounds": 5}})
    'train.rounds: 3, now 5'
    """
    if isinstance(old, dict) and isinstance(new, dict):
        changes = (first_change(old.get(key), new.get(key), f"{prefix}.{key}") for key in {**old, **new})
        return next(filter(None, changes), "")
    # A tuple of settings comes back from TOML as a list.
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        old, new = list(old), list(new)
    return "" if old == new else f"{prefix.removeprefix('.')}: {old!r}, now {new!r}"


def protected(entry: Entry, attributes: Sequence[str], protection: Protection) -> tuple[str | None, ...]:
    """Return the attributes that the entry runs for one after the other; (None,) if it runs once."""
    if entry.make().attributes != "single":
        return (None,)
    chosen = entry.settings.get("attribute")
    if chosen:
        if chosen not in attributes and chosen != INTERSECTION:
            raise unknown("attribute", chosen, [*attributes, INTERSECTION])
        return (None,)
    if not attributes:
        raise GlocalfairError(f"Method '{entry.method}' protects a sensitive attribute, and the data have none.")
    return (INTERSECTION,) if protection == "intersection" else tuple(attributes)


def plan(
    config: Config,
    entries: Sequence[Entry],
    over: Repeats,
    attributes: Sequence[str],
    protection: Protection,
    root: Path,
) -> list[Job]:
    """List the runs, repeat by repeat, so that an interrupted comparison has all methods of the first repeats."""
    jobs = []
    for number, repeated in over.configs(config):
        # The runs share the cores among themselves.
        repeated = replace(repeated, run=replace(repeated.run, workers=1))
        for entry in entries:
            for attribute in protected(entry, attributes, protection):
                settings = dict(entry.settings) if attribute is None else {**entry.settings, "attribute": attribute}
                resolved = replace(entry, settings=settings).resolved()
                path = root / quote(entry.label, safe=SAFE)
                path = path / quote(attribute, safe=SAFE) if attribute is not None else path
                path = path / f"{over.kind}{number}"
                jobs.append(Job(entry.label, attribute, number, replace(repeated, method=resolved), path))
    return jobs
