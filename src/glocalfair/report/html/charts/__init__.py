"""The figures of the report: each module has a function ``(arms) -> Chart | None``.

A further figure is one more module and a line in `CHARTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from glocalfair.report.html.arms import Arm
from glocalfair.report.html.charts import duals, frontier, gini, heat, holdings, local, lorenz, training
from glocalfair.report.html.charts.chart import Chart

CHARTS: tuple[Callable[[Sequence[Arm]], Chart | None], ...] = (
    frontier.chart,
    local.chart,
    training.chart,
    duals.chart,
    lorenz.chart,
    gini.chart,
    heat.chart,
    holdings.chart,
)


def draw(arms: Sequence[Arm]) -> list[Chart]:
    """Draw every figure that the runs have something for."""
    drawn = (chart(arms) for chart in CHARTS)
    return [chart for chart in drawn if chart is not None]
