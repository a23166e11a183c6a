"""The paper's figures: distribution of local fairness, Lorenz curves, Gini against EOD; as SVG with their data."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from glocalfair.compare import executor
from glocalfair.compare.entries import Settings
from glocalfair.report.html import files
from glocalfair.report.html.arms import Arm
from glocalfair.report.html.build import arms_of
from glocalfair.report.html.charts import gini, local, lorenz
from glocalfair.report.html.charts.chart import Chart
from glocalfair.report.text import at
from glocalfair.reproduce.runs import distinct
from glocalfair.reproduce.spec import BudgetName, Source, Table
from glocalfair.reproduce.study import make_runs
from glocalfair.runs import write_atomically


def figures(
    table: Table,
    source: Source,
    budget: BudgetName,
    root: Path,
    folder: Path,
    *,
    tuned: Settings | None = None,
    workers: int | None = None,
    on_progress: executor.OnProgress | None = None,
) -> list[Path]:
    """Draw the figures from the runs that `table` asks for; return the files."""
    parts, _ = make_runs(table, source, budget, root, tuned or {}, workers, on_progress)
    arms = arms_of([job.path for job in distinct(parts)])
    drawn = [local.chart(arms), _last(lorenz.chart(arms)), gini.chart(arms)]
    written = files.write([chart for chart in drawn if chart is not None], folder)
    for name, rows in (("local", _local(arms)), ("lorenz", _lorenz(arms)), ("gini", _gini(arms))):
        path = folder / f"{name}.csv"
        write_atomically(path, _table(rows).encode())
        written.append(path)
    return written


def _last(chart: Chart | None) -> Chart | None:
    """Keep the last round of each method: the paper shows one set of Lorenz curves."""
    return chart and replace(chart, views=tuple(view for view in chart.views if view.key[1] == 0))


Line = dict[str, Any]


def _table(rows: Iterator[Line]) -> str:
    lines = list(rows)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(lines[0]) if lines else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def _names(arm: Arm) -> list[str]:
    return [attribute.name for attribute in arm.first.overall.attributes]


def _local(arms: Sequence[Arm]) -> Iterator[Line]:
    for arm in arms:
        for run, client in arm.clients():
            gaps = {f"eod_{name}": at(client, ("eod", name)) for name in _names(arm)}
            yield {"method": arm.label, "seed": run.seed, "client": client["name"], **gaps, "dp_dis": client["dp_dis"]}


def _models(arms: Sequence[Arm], key: str) -> Iterator[tuple[Arm, Line, Any, Any]]:
    """Give every client model that the server measured: who made it when, what was measured, and its round."""
    for arm in arms:
        for run in arm.runs:
            for record in run.rounds:
                for client, value in record.get("server", {}).get(key, {}).items():
                    who = {"method": arm.label, "seed": run.seed, "round": record["round"], "client": client}
                    yield arm, who, value, record


def _gini(arms: Sequence[Arm]) -> Iterator[Line]:
    for arm, who, value, record in _models(arms, "gini"):
        path = ("client_models", who["client"], "eod")
        yield {**who, "gini": value, **{f"eod_{name}": at(record, (*path, name)) for name in _names(arm)}}


def _lorenz(arms: Sequence[Arm]) -> Iterator[Line]:
    for arm, who, curve, record in _models(arms, "lorenz"):
        if record is arm.first.rounds[-1]:
            for place, share in enumerate(curve):
                yield {**who, "weights": place / (len(curve) - 1), "magnitude": share}
