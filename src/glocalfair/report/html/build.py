"""From run directories to a page and figures on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from glocalfair.errors import GlocalfairError
from glocalfair.report.html import files
from glocalfair.report.html.arms import Arm, group
from glocalfair.report.html.charts import draw
from glocalfair.report.html.load import find, load
from glocalfair.report.html.page import render
from glocalfair.runs import write_atomically


def arms_of(paths: Sequence[Path]) -> list[Arm]:
    """Read the runs at or below the paths; they must share their sensitive attributes."""
    runs = [load(path) for path in find(paths)]
    for run in runs:
        if run.overall.attributes != runs[0].overall.attributes:
            raise GlocalfairError(
                f"'{runs[0].path}' and '{run.path}' have different sensitive attributes: make a report for each."
            )
    return group(runs)


def write_report(
    paths: Sequence[Path],
    output: Path,
    title: str | None = None,
    figures: Path | None = None,
    *,
    png: bool = False,
    command: str = "",
) -> list[Path]:
    """Write the page, and the figures if a directory is given; return all files.

    Parameters
    ----------
    paths
        Run directories, or directories that hold some.
    output
        The HTML file.
    title
        Heading of the page; by default it names the data.
    figures, png
        Where the figures go as SVG files, and whether PNG files go there too.
    command
        Shown on the page as the way to make it again.
    """
    arms = arms_of(paths)
    charts = draw(arms)
    page = render(arms, charts, title or default_title(arms), command)
    output.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(output, page.encode())
    return [output, *(files.write(charts, figures, png=png) if figures is not None else [])]


def default_title(arms: Sequence[Arm]) -> str:
    """Name the data."""
    return f"How fair is the model? {', '.join(dict.fromkeys(arm.first.data for arm in arms))}"
