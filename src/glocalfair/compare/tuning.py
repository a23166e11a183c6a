"""Chooses each method's strength on validation data, so that a comparison is fair to all of them.

The rule: among the settings whose validation accuracy is at most `budget` below FedAvg's, the one with the smallest
EOD (mean over attributes and seeds). If no setting keeps the budget, the most accurate one. A setting that gives
(almost) everybody the same answer is never chosen while there is another. Test rows are not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from glocalfair.compare import executor
from glocalfair.compare.assemble import ALMOST
from glocalfair.compare.entries import Entry
from glocalfair.compare.grids import points
from glocalfair.compare.jobs import Job, plan, repeats
from glocalfair.compare.study import federation_of, settle
from glocalfair.config import Config
from glocalfair.errors import GlocalfairError, invalid
from glocalfair.experiment import Experiment
from glocalfair.metrics import defined
from glocalfair.runs import RunDirectory

REFERENCE = "fedavg"


@dataclass(frozen=True)
class Trial:
    """A setting that was tried, and what it gave on validation rows (means over the seeds)."""

    settings: Mapping[str, Any]
    accuracy: float
    positive_rate: float
    eod: Mapping[str, float]

    @property
    def mean_eod(self) -> float:
        """Mean over the attributes where it is defined."""
        return float(defined.mean(np.array([*self.eod.values(), math.nan])))


@dataclass(frozen=True)
class Choice:
    """What was chosen for a method, and from what."""

    method: str
    chosen: Trial
    within: bool
    """Whether the choice keeps the accuracy budget."""
    trials: tuple[Trial, ...]


def describe(settings: Mapping[str, Any]) -> str:
    """Write settings in one line.

    >>> describe({"beta": 1.0, "local_debias": "none"}), describe({})
    ('beta=1.0 local_debias=none', 'default')
    """
    return " ".join(f"{key}={value}" for key, value in settings.items()) or "default"


def candidates(method: str, fixed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the settings to try: the defaults if no point of the grid has them, then the grid.

    What `fixed` sets is not varied.
    """
    free = [{key: value for key, value in point.items() if key not in fixed} for point in points(method)]
    tried: dict[str, dict[str, Any]] = {}
    for settings in ({}, *free):
        # By what they mean, so that a point equal to the defaults is tried once; the point's own form is kept.
        tried[str(Entry(method, method, {**fixed, **settings}).resolved())] = settings
    return list(tried.values())


def choose_trial(trials: Sequence[Trial], reference: Trial, budget: float) -> tuple[Trial, bool]:
    """Apply the rule; return the trial and whether it keeps the budget."""
    usable = [trial for trial in trials if not _collapsed(trial, reference)] or list(trials)
    within = [trial for trial in usable if trial.accuracy >= reference.accuracy - budget]
    if not within:
        return max(usable, key=lambda trial: trial.accuracy), False
    return min(within, key=lambda trial: (_or_infinity(trial.mean_eod), -trial.accuracy)), True


def _or_infinity(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _collapsed(trial: Trial, reference: Trial) -> bool:
    positive, usual = trial.positive_rate, reference.positive_rate
    return positive < ALMOST * usual or 1 - positive < ALMOST * (1 - usual)


def _validation(job: Job) -> Mapping[str, Any]:
    """Return what the final model of a run did on the clients' validation rows."""
    if job.averaged > 1 or job.config.train.early_stopping:
        # The log has the last global model, which is not the final one here.
        saved = replace(job.config.model, warm_start=str(RunDirectory(job.path).model))
        final = Experiment.prepare(replace(job.config, model=saved))
        if len(final.simulator.validation):
            return final.simulator.validate(final.initial)
    for record in reversed(RunDirectory(job.path).load_rounds()):
        if "validation" in record:
            found: Mapping[str, Any] = record["validation"]
            return found
    raise GlocalfairError("Tuning needs validation rows, and no client has any. Set 'split.validation' above 0.")


def _trial(settings: Mapping[str, Any], jobs: Sequence[Job], attributes: Sequence[str]) -> Trial:
    told = [(job, _validation(job)) for job in jobs]

    def mean(values: Sequence[float | None]) -> float:
        return float(defined.mean(np.array([math.nan if value is None else value for value in values])))

    return Trial(
        settings,
        mean([each["accuracy"] for _, each in told]),
        mean([each["positive_rate"] for _, each in told]),
        {
            # A method that protects one attribute is judged by the run in which it does.
            name: mean([each["eod"][name] for job, each in told if job.attribute in (None, name)])
            for name in attributes
        },
    )


def tune(
    config: Config,
    methods: Sequence[str],
    output: Path | None = None,
    *,
    fixed: Mapping[str, Mapping[str, Any]] | None = None,
    seeds: int = 3,
    budget: float = 0.01,
    workers: int | None = None,
    experiment: str = "experiment",
    on_progress: executor.OnProgress | None = None,
) -> tuple[tuple[Choice, ...], Trial, Path]:
    """Try each method's grid (`GRIDS`) and choose.

    Parameters
    ----------
    config
        The experiment; its ``[method]`` is not used.
    methods
        Names of methods.
    output
        Where the runs are kept; None: ``runs/tune-EXPERIMENT``, numbered if that holds other runs.
    fixed
        Settings by method that are not varied.
    seeds
        Number of seeds, from the experiment's own one on.
    budget
        How much validation accuracy may be lost against FedAvg.
    workers, experiment, on_progress
        As in `compare`.

    Returns
    -------
    The choices, FedAvg's own trial, and the directory of the runs
    """
    if not 0 <= budget < 1:
        raise invalid("--budget", "a loss of accuracy of at least 0 and below 1", budget)
    fixed = fixed or {}
    over = repeats(config, seeds, None)
    attributes = [attribute.name for attribute in federation_of(config).attributes]
    tried = {name: candidates(name, fixed.get(name, {})) for name in dict.fromkeys([REFERENCE, *methods])}
    labels = {
        f"{name} {describe(settings)}": Entry(f"{name} {describe(settings)}", name, {**fixed.get(name, {}), **settings})
        for name, points_ in tried.items()
        for settings in points_
    }

    def jobs_in(root: Path) -> list[Job]:
        return plan(config, list(labels.values()), over, attributes, "per", root)

    root = output or settle(Path("runs") / f"tune-{experiment}", jobs_in)
    jobs = jobs_in(root)
    executor.execute(jobs, workers, on_progress)
    by_label: dict[str, list[Job]] = {}
    for job in jobs:
        by_label.setdefault(job.label, []).append(job)
    trials = {
        name: tuple(_trial(settings, by_label[f"{name} {describe(settings)}"], attributes) for settings in points_)
        for name, points_ in tried.items()
    }
    reference = trials[REFERENCE][0]
    choices = [Choice(name, *choose_trial(trials[name], reference, budget), trials[name]) for name in methods]
    return tuple(choices), reference, root
