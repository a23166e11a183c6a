"""A comparison from beginning to end: plan the runs, execute what is missing, put it together, write it down."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from glocalfair import config as configuration
from glocalfair.compare import executor
from glocalfair.compare.assemble import assemble, figures
from glocalfair.compare.comparison import Comparison
from glocalfair.compare.entries import Entry
from glocalfair.compare.jobs import Job, Protection, plan, repeats
from glocalfair.compare.notes import notes
from glocalfair.config import Config
from glocalfair.errors import GlocalfairError, unknown
from glocalfair.experiment import Experiment
from glocalfair.metrics import joint
from glocalfair.runs import write_atomically
from glocalfair.types import Federation

FILE = "comparison.json"


def federation_of(config: Config) -> Federation:
    """Build the federation once, which also finds what is wrong with the experiment before any run starts."""
    return Experiment.prepare(replace(config, method={"name": "fedavg"})).federation


def settle(base: Path, jobs_in: Callable[[Path], list[Job]]) -> Path:
    """Return the first of ``base``, ``base-2`` … whose runs, if there are any, are those that are wanted.

    So the same comparison finds its own runs again, and another one does not disturb them.
    """
    for number in count(1):
        path = base if number == 1 else base.with_name(f"{base.name}-{number}")
        try:
            for job in jobs_in(path):
                job.finished()
        except GlocalfairError:
            continue
        return path
    raise AssertionError


def compare(
    config: Config,
    entries: Sequence[Entry],
    output: Path | None = None,
    *,
    seeds: int | None = None,
    folds: int | None = None,
    protection: Protection = "per",
    baseline: str | None = None,
    workers: int | None = None,
    experiment: str = "experiment",
    on_progress: executor.OnProgress | None = None,
) -> tuple[Comparison, Path]:
    """Compare methods on one federation.

    Parameters
    ----------
    config
        The experiment; its ``[method]`` is not used.
    entries
        The methods with their settings, see `choose`.
    output
        Where the runs and ``comparison.json`` are kept. Runs that are there already are used, and continued if they
        were interrupted. None: ``runs/compare-EXPERIMENT``, numbered if that holds other runs.
    seeds, folds
        Repeat over so many seeds (5 if neither is given) or over rotating test folds, whose counts are pooled.
    protection
        Methods that protect one attribute run for each attribute (``"per"``) or once on the intersection of all.
    baseline
        Differences are taken from this entry; FedAvg if it is compared, else the first.
    workers
        Processes; None for one for each core.
    experiment
        A name for titles and for the default output.
    on_progress
        Called now and then with the state of the runs.

    Returns
    -------
    The comparison, and the directory that it was written to
    """
    labels = [entry.label for entry in entries]
    if baseline is None:
        baseline = "fedavg" if "fedavg" in labels else labels[0]
    elif baseline not in labels:
        raise unknown("baseline", baseline, labels)
    over = repeats(config, seeds, folds)
    federation = federation_of(next(over.configs(config))[1])
    attributes = tuple(attribute.name for attribute in federation.attributes)

    def jobs_in(root: Path) -> list[Job]:
        return plan(config, entries, over, attributes, protection, root)

    root = output or settle(Path("runs") / f"compare-{experiment}", jobs_in)
    jobs = jobs_in(root)
    executor.execute(jobs, workers, on_progress)
    crossed = (joint(federation.attributes).name,) if protection == "intersection" and len(attributes) > 1 else ()
    about = Comparison(
        experiment,
        baseline,
        over.kind,
        over.numbers,
        protection,
        attributes,
        len(federation.clients),
        figures([*attributes, *crossed]),
        (),
        {k: v for k, v in configuration.to_mapping(config).items() if k != "method"},
    )
    comparison = assemble(about, entries, jobs, root)
    save(comparison, root)
    return comparison, root


def save(comparison: Comparison, root: Path) -> None:
    """Write ``comparison.json``."""
    content = {**comparison.to_dict(), "notes": list(notes(comparison))}
    write_atomically(root / FILE, json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False).encode())


def load(root: Path) -> Comparison:
    """Read the comparison in a directory."""
    path = root / FILE
    try:
        return Comparison.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GlocalfairError(f"'{root}' holds no comparison that can be read: {error}.") from error
