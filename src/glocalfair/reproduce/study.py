"""From a table's name to its sheet: plan the runs, make those that are missing, put them together."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from pathlib import Path

from glocalfair.compare import executor
from glocalfair.compare.entries import Settings
from glocalfair.compare.jobs import Job
from glocalfair.reproduce.runs import Federation, distinct, federations
from glocalfair.reproduce.sheet import Made, Sheet, compared
from glocalfair.reproduce.spec import BudgetName, Source, Table, read_source
from glocalfair.runs import RunDirectory

RUNS = Path("runs") / "reproduce"


def make_runs(
    table: Table,
    source: Source,
    budget: BudgetName,
    root: Path,
    tuned: Settings,
    workers: int | None,
    on_progress: executor.OnProgress | None,
) -> tuple[tuple[Federation, ...], int]:
    """Make the runs of a table that are missing; return its federations and how many runs were there already."""
    parts = federations(table, source, table.budgets[budget], root, tuned)
    jobs = distinct(parts)
    there = sum(job.finished() for job in jobs)
    executor.execute(jobs, workers, on_progress)
    return parts, there


def reproduce(
    table: Table,
    source: Source,
    budget: BudgetName = "standard",
    root: Path = RUNS,
    *,
    tuned: Settings | None = None,
    workers: int | None = None,
    command: str = "",
    on_progress: executor.OnProgress | None = None,
) -> Sheet:
    """Reproduce a table.

    Parameters
    ----------
    table, source
        The table and the data, see `read_table` and `read_source`.
    budget
        How much is spent: ``"quick"``, ``"standard"`` or ``"full"``.
    root
        Where the runs are kept. Runs that are there already are used, and continued if they were interrupted.
    tuned
        Settings by method that replace its defaults; the settings that a table varies stay as they are.
    workers
        Processes; None for one for each core.
    command
        Written into the sheet as the way to make it again.
    on_progress
        Called now and then with the state of the runs.
    """
    begun = time.perf_counter()
    parts, there = make_runs(table, source, budget, root, tuned or {}, workers, on_progress)
    jobs = distinct(parts)
    return Sheet(
        table,
        source,
        read_source(table.source(source.name)) if table.paper else source,
        budget,
        table.budgets[budget],
        tuple(compared(table, source, part, root) for part in parts),
        _made(command, time.perf_counter() - begun, jobs, there),
    )


def _made(command: str, seconds: float, jobs: Sequence[Job], there: int) -> Made:
    results = [RunDirectory(job.path).load_result() for job in jobs]
    versions = {**results[0]["versions"], "Python": platform.python_version()}
    return Made(command, round(seconds, 1), sum(r["seconds"] for r in results), len(jobs), there, versions)
