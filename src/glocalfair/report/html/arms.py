"""An arm: the runs of one method with one configuration, which differ in the seed or the test fold alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glocalfair.metrics.tables import with_intersection
from glocalfair.report.html.load import Run
from glocalfair.report.text import at, is_defined
from glocalfair.types import Attribute

BASELINE = "fedavg"
SUBJECT = "glocalfair"
# What may differ between runs of one arm: which rows are drawn, and how the machine works.
_SEED_KEYS = {"run": {"seed", "workers", "cohort", "checkpoint_every"}, "split": {"fold", "seed"}}


@dataclass(frozen=True)
class Estimate:
    """A figure of an arm: its value and the ends of its error bar (None where undefined)."""

    value: float | None
    low: float | None
    high: float | None
    spread: float | None = None
    """Standard deviation over seeds; None for one run, whose ends are a bootstrap interval."""


@dataclass(frozen=True, eq=False)
class Arm:
    """Runs that differ in the seed or the test fold alone."""

    label: str
    runs: tuple[Run, ...]
    style: int
    """Number of its colour and marker; −1 is the baseline's."""

    @property
    def first(self) -> Run:
        """The run that figures of a single run show."""
        return self.runs[0]

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.first.method

    @property
    def repeats(self) -> str:
        """What its runs differ in: "seed" or "fold"."""
        return "seed" if self.first.fold is None else "fold"

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The sensitive attributes and their intersection."""
        return with_intersection(self.first.overall.attributes)

    @property
    def constant(self) -> bool:
        """Whether a run gives everybody the same answer."""
        return any(bool(run.result["global"].get("constant")) for run in self.runs)

    def values(self, *path: str) -> list[float]:
        """Return a figure of every run in which it is defined."""
        found = [at(run.result, path) for run in self.runs]
        return [float(value) for value in found if is_defined(value)]

    def mean(self, *path: str) -> float | None:
        """Return the mean of a figure over the runs in which it is defined."""
        values = self.values(*path)
        return float(np.mean(values)) if values else None

    def noise(self, *path: str) -> float:
        """Return about how far a figure may be off: its std over runs, or half the interval of a single one."""
        values = self.values(*path)
        if len(values) > 1:
            return float(np.std(values, ddof=1))
        ends = at(self.first.result, (path[0], "intervals", *path[1:]))
        return (ends[1] - ends[0]) / 2 if ends and all(is_defined(end) for end in ends) else 0.0

    def overall(self, *path: str) -> Estimate:
        """Return a global figure: mean ± std over seeds, or one run's value and bootstrap interval."""
        values = self.values("global", *path)
        if not values:
            return Estimate(None, None, None)
        mean = float(np.mean(values))
        if len(self.runs) > 1:
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
            return Estimate(mean, mean - spread, mean + spread, spread)
        ends = at(self.first.result["global"].get("intervals", {}), path) or [None, None]
        return Estimate(mean, ends[0], ends[1])

    def clients(self) -> list[tuple[Run, Mapping[str, Any]]]:
        """Return the local figures of every client in every run."""
        return [(run, client) for run in self.runs for client in run.result["local"].get("clients", ())]


def group(runs: Sequence[Run]) -> list[Arm]:
    """Put runs together that differ in the seed alone; the baseline comes first.

    The same run twice, seed and all, counts once: it is no further evidence.
    """
    found: dict[str, list[Run]] = {}
    once = {json.dumps(run.config, sort_keys=True, default=str): run for run in runs}
    for run in sorted(once.values(), key=lambda run: (run.method != BASELINE, run.method, run.seed, run.fold or 0)):
        found.setdefault(json.dumps(_without_seed(run.config), sort_keys=True, default=str), []).append(run)
    members = list(found.values())
    labels = _labels(members)
    others = [i for i, each in enumerate(members) if each[0].method != BASELINE]
    # GLocalFair has the first colour; everything else follows in order.
    others.sort(key=lambda i: (members[i][0].method != SUBJECT, i))
    plain = [i for i, each in enumerate(members) if each[0].method == BASELINE]
    styles = {i: number for number, i in enumerate([*others, *plain[1:]])} | dict.fromkeys(plain[:1], -1)
    return [Arm(label, tuple(each), styles[i]) for i, (label, each) in enumerate(zip(labels, members, strict=True))]


def baseline_of(arm: Arm, arms: Sequence[Arm]) -> Arm | None:
    """Return the FedAvg arm to compare with: the one whose setting differs least."""
    plain = [each for each in arms if each.method == BASELINE and each is not arm]
    mine = _flat(arm.first.config)
    return min(plain, key=lambda each: len(_differences([mine, _flat(each.first.config)])), default=None)


def subject_of(arms: Sequence[Arm]) -> Arm:
    """Return the arm that the verdict is about: GLocalFair, or the first that is not the baseline."""
    order = [SUBJECT, f"{SUBJECT}-paper"]
    ranked = sorted(arms, key=lambda a: (order.index(a.method) if a.method in order else 9, a.method == BASELINE))
    return ranked[0]


def _without_seed(config: Mapping[str, Any]) -> dict[str, Any]:
    drop = _SEED_KEYS
    return {
        section: {k: v for k, v in content.items() if k not in drop.get(section, ())}
        if isinstance(content, Mapping)
        else content
        for section, content in config.items()
    }


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    result: dict[str, str] = {}
    for key, value in _without_seed(config).items() if not prefix else config.items():
        if isinstance(value, Mapping):
            result |= _flat(value, f"{prefix}{key}.")
        else:
            result[prefix + key] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return result


def _differences(configs: Sequence[Mapping[str, str]]) -> list[str]:
    keys = dict.fromkeys(key for config in configs for key in config)
    return [key for key in keys if len({config.get(key) for config in configs}) > 1]


def settings_that_differ(arms: Sequence[Arm]) -> list[str]:
    """Return the keys outside of ``[method]`` in which the arms differ: what makes them hard to compare."""
    return [k for k in _differences([_flat(arm.first.config) for arm in arms]) if not k.startswith("method.")]


def _labels(members: Sequence[Sequence[Run]]) -> list[str]:
    """Name each arm by its method and, if that is not enough, by the settings in which namesakes differ."""
    labels = []
    for each in members:
        mine = _flat(each[0].config)
        namesakes = [_flat(other[0].config) for other in members if other[0].method == each[0].method]
        differing = _differences(namesakes)
        text = ", ".join(f"{key.rpartition('.')[2]} {mine.get(key, '–')}" for key in differing[:3])
        labels.append(f"{each[0].method} ({text})" if text else each[0].method)
    seen: dict[str, int] = {}
    for i, label in enumerate(labels):
        seen[label] = seen.get(label, 0) + 1
        labels[i] = label if seen[label] == 1 else f"{label} #{seen[label]}"
    return labels
