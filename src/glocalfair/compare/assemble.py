"""From finished runs to a `Comparison`: values by repeat, pooled counts, differences and who is best."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from glocalfair.compare.comparison import LEVEL, Cell, Comparison, Difference, Figure, Row, Run, View
from glocalfair.compare.entries import Entry
from glocalfair.compare.jobs import Job
from glocalfair.compare.student import paired
from glocalfair.metrics import Tables, defined, summarise
from glocalfair.runs import RunDirectory

ALMOST = 0.1
"""A model has collapsed if it gives an answer less than this share of the times that it would be right."""

Result = Mapping[str, Any]
Runs = Mapping[str | None, Result]
"""The results of one repeat by protected attribute; None where the method runs once."""


def figures(attributes: Sequence[str]) -> tuple[Figure, ...]:
    """List the columns of all views."""

    def gaps(view: View) -> list[Figure]:
        return [*(Figure(view, "eod", name) for name in attributes), Figure(view, "dp_dis")]

    return (
        Figure("global", "accuracy", better="higher"),
        *gaps("global"),
        Figure("global", "positive_rate", better=None),
        *gaps("excess"),
        *gaps("local"),
        Figure("local", "dis"),
        *gaps("spread"),
        *gaps("local_excess"),
    )


def _follow(values: Any, figure: Figure) -> Any:
    value = values[figure.metric]
    return value[figure.attribute] if figure.attribute is not None else value


def read(figure: Figure, result: Result) -> float:
    """Read a figure from the result of a run; NaN where it is undefined."""
    part = result["global" if figure.view in ("global", "excess") else "local"]
    if figure.view in ("excess", "local_excess"):
        part = part["excess"]
    value = _follow(part, figure)
    if isinstance(value, Mapping):
        value = value["std" if figure.view == "spread" else "mean"]
    return math.nan if value is None else float(value)


def value(figure: Figure, runs: Runs) -> float:
    """Return a figure of one repeat: from the run that protects its attribute, else the mean over the runs."""
    if figure.attribute in runs:
        return read(figure, runs[figure.attribute])
    return float(defined.mean(np.array([read(figure, result) for result in runs.values()])))


def _counted(figure: Figure, runs: Runs) -> tuple[int, int]:
    """Return on how many clients, or whether at all, a figure of one repeat is defined."""
    result = runs.get(figure.attribute, next(iter(runs.values())))
    if figure.view in ("global", "excess") or figure.metric == "dis":
        return int(not math.isnan(value(figure, runs))), 1
    spread = _follow(result["local"], figure)
    return int(spread["defined"]), int(spread["clients"])


def pool(results: Sequence[Result], seed: int) -> dict[str, Any]:
    """Add the global counts of the folds and return their figures, as a run's result has them under "global"."""
    counts = functools.reduce(
        operator.add, (Tables.from_dict(result["counts"]["global"]).pooled() for result in results)
    )
    pooled: dict[str, Any] = summarise(counts, counts, ("all",), seed=seed)["global"]
    return pooled


def collapsed(result: Result) -> bool:
    """Whether a run's model gives (almost) everybody the same answer, and so has no gaps without being fair."""
    table = Tables.from_dict(result["counts"]["global"]).counts.sum(axis=(0, 1))
    predicted, actual = table.sum(axis=0), table.sum(axis=1)
    return bool(result["global"]["constant"] or (predicted < ALMOST * actual).any())


def _cell(figure: Figure, repeats: Sequence[Runs], pooled: Runs | None) -> Cell:
    values = np.array([value(figure, runs) for runs in repeats])
    number = int(defined.number(values))
    spread = float(values[~np.isnan(values)].std(ddof=1)) if number > 1 else math.nan
    counted = [_counted(figure, runs) for runs in repeats]
    # A row may be in the local test set of several folds, so local counts are not added.
    together = value(figure, pooled) if pooled and figure.view in ("global", "excess") else math.nan
    return Cell(
        tuple(values.tolist()),
        float(defined.mean(values)),
        spread,
        together,
        sum(here for here, _ in counted),
        sum(of for _, of in counted),
    )


def _row(entry: Entry, columns: Sequence[Figure], jobs: Sequence[Job], root: Path, folds: bool, seed: int) -> Row:
    results = [RunDirectory(job.path).load_result() for job in jobs]
    repeats: dict[int, dict[str | None, Result]] = {}
    for job, result in zip(jobs, results, strict=True):
        repeats.setdefault(job.repeat, {})[job.attribute] = result
    pooled: Runs | None = None
    if folds:
        kinds = dict.fromkeys(job.attribute for job in jobs)
        pooled = {kind: {"global": pool([runs[kind] for runs in repeats.values()], seed)} for kind in kinds}
    made = entry.make()
    told = (d.kind.replace("_", " ") for d in made.discloses() if d.kind not in ("weights", "examples"))
    return Row(
        entry.label,
        entry.method,
        {k: v for k, v in entry.resolved().items() if k != "name"},
        made.attributes,
        made.personal,
        jobs[0].averaged,
        tuple(dict.fromkeys(told)),
        tuple(
            Run(
                str(job.path.relative_to(root)),
                job.attribute,
                job.repeat,
                result["seconds"],
                collapsed(result),
                "diverged" in result,
            )
            for job, result in zip(jobs, results, strict=True)
        ),
        {figure.key: _cell(figure, list(repeats.values()), pooled) for figure in columns},
    )


def against(row: Row, baseline: Row) -> Row:
    """Add the differences from the baseline."""
    cells = {}
    for key, cell in row.cells.items():
        mean, half, pairs = paired(np.array(cell.values), np.array(baseline.cells[key].values), LEVEL)
        cells[key] = replace(cell, difference=Difference(mean, mean - half, mean + half, pairs))
    return replace(row, cells=cells)


def mark_best(rows: Sequence[Row], columns: Sequence[Figure]) -> tuple[Row, ...]:
    """Mark the best of each column; a row with a collapsed or diverged run never is."""
    marked = [dict(row.cells) for row in rows]
    for figure in columns:
        ranks = [_rank(figure, row) for row in rows]
        top = max(ranks, default=-math.inf)
        for cells, rank in zip(marked, ranks, strict=True):
            best = rank == top and rank > -math.inf
            cells[figure.key] = replace(cells[figure.key], best=best)
    return tuple(replace(row, cells=cells) for row, cells in zip(rows, marked, strict=True))


def _rank(figure: Figure, row: Row) -> float:
    shown = row.cells[figure.key].value
    if figure.better is None or row.collapsed or row.diverged or math.isnan(shown):
        return -math.inf
    if figure.view in ("excess", "local_excess"):
        # Below the floor all are alike: it is chance that decides there.
        shown = max(shown, 0.0)
    # What looks equal in the tables is equal.
    shown = round(shown, 3)
    return shown if figure.better == "higher" else -shown


def assemble(about: Comparison, entries: Sequence[Entry], jobs: Sequence[Job], root: Path) -> Comparison:
    """Fill a comparison that has everything but its rows, from runs that are finished."""
    seed = int(about.config["run"]["seed"])
    rows = [
        _row(entry, about.figures, [job for job in jobs if job.label == entry.label], root, about.kind == "fold", seed)
        for entry in entries
    ]
    baseline = next(row for row in rows if row.label == about.baseline)
    rows = [row if row is baseline else against(row, baseline) for row in rows]
    return replace(about, rows=mark_best(rows, about.figures))
