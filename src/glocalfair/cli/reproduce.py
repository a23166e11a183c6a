"""``glocalfair reproduce``: the paper's tables and figures."""

from __future__ import annotations

import shlex
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from glocalfair.cli.compare import interrupted
from glocalfair.cli.run import _waiting

if TYPE_CHECKING:
    from glocalfair.reproduce.sheet import Sheet

TABLES = tuple(f"table{number}" for number in range(1, 8))
WHAT = (*TABLES, "figures", "all")
DATA = ("adult", "utkface", "celeba")
RUNS = Path("runs") / "reproduce"
_HEADING = 12


@click.command("reproduce", short_help="Run the paper's tables again, its figures beside ours.")
@click.argument("what", type=click.Choice(WHAT), metavar="table1|…|table7|figures|all")
@click.option("--data", type=click.Choice(DATA), default="adult", show_default=True, help="On which data.")
@click.option(
    "--budget",
    type=click.Choice(["quick", "standard", "full"]),
    default="standard",
    show_default=True,
    help="Seconds to a minute; the paper's rounds over 5 or 10 seeds; over 20 seeds.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=RUNS,
    show_default=True,
    metavar="DIR",
    help="Where the tables go.",
)
@click.option(
    "--runs",
    type=click.Path(path_type=Path, file_okay=False),
    default=RUNS,
    show_default=True,
    metavar="DIR",
    help="Where the runs are kept, which the tables share.",
)
@click.option(
    "--tuned", type=click.Path(path_type=Path), metavar="FILE", help="Settings as 'glocalfair tune' wrote them."
)
@click.option("--workers", type=int, metavar="W", help="Processes; one for each core if not given.")
@click.option("--quiet", is_flag=True, help="Print nothing but the files.")
def reproduce_command(
    what: str,
    data: str,
    budget: Any,
    output: Path,
    runs: Path,
    tuned: Path | None,
    workers: int | None,
    quiet: bool,
) -> None:
    """Run the paper's tables again, its own figures beside ours.

    Each table is written as Markdown, LaTeX, CSV and JSON. Runs that several tables need are made once; the same
    command again uses what is finished and continues what was interrupted.

    \b
    Examples:
      glocalfair reproduce table1 --budget quick
      glocalfair reproduce all --output results
    """
    with _waiting(quiet):
        from glocalfair.compare import read_tuned
        from glocalfair.report.comparison_progress import ComparisonProgress
        from glocalfair.reproduce import read_source, read_table, reproduce
        from glocalfair.reproduce.write import write

    source = read_source(data)
    settings = read_tuned(tuned) if tuned is not None else {}
    options: dict[str, Any] = {"tuned": settings, "workers": workers}
    for name in WHAT[:-1] if what == "all" else (what,):
        progress = ComparisonProgress(quiet)
        try:
            with progress:
                options["on_progress"] = progress.update
                if name == "figures":
                    _draw(source, budget, runs, output, options)
                    continue
                command = _command(name, data, budget, output, runs, tuned)
                sheet = reproduce(read_table(name), source, budget, runs, command=command, **options)
        except KeyboardInterrupt as error:
            raise interrupted(progress) from error
        file = write(sheet, output)
        if not quiet:
            _show(sheet)
        click.echo(str(file))


def _draw(source: Any, budget: Any, runs: Path, output: Path, options: dict[str, Any]) -> None:
    from glocalfair.reproduce import read_table
    from glocalfair.reproduce.figures import figures

    folder = output / ("figures" if source.name == "adult" else f"figures-{source.name}")
    figures(read_table("figures"), source, budget, runs, folder, **options)
    click.echo(str(folder))


def _command(name: str, data: str, budget: str, output: Path, runs: Path, tuned: Path | None) -> str:
    """Write the command that makes this table alone; workers and words change nothing in it."""
    words = ["glocalfair", "reproduce", name, "--data", data, "--budget", budget]
    words += ["--output", str(output)] if output != RUNS else []
    words += ["--runs", str(runs)] if runs != RUNS else []
    words += ["--tuned", str(tuned)] if tuned is not None else []
    return shlex.join(words)


def _show(sheet: Sheet) -> None:
    from glocalfair.report.console import console
    from glocalfair.report.tables import plain_table, titled
    from glocalfair.reproduce.grids import beside
    from glocalfair.reproduce.notes import title, warning

    out = console()
    out.print(title(sheet), style="bold")
    if told := warning(sheet):
        out.print(told)
    for part in sheet.parts:
        for grid in beside(sheet, part):
            name = f"\n{part.setting.title}: {grid.caption}"
            # As many columns side by side as the terminal is wide.
            label = max(len(line[0]) for line in grid.lines)
            cell = max(len(text) for line in grid.lines for text in line[1:])
            step = max(1, (out.width - label) // (max(cell, _HEADING) + 3))
            for start in range(1, len(grid.headings), step):
                kept = slice(start, start + step)
                table = plain_table(
                    "method", *("\n".join(textwrap.wrap(text, _HEADING)) for text in grid.headings[kept])
                )
                for line in grid.lines:
                    table.add_row(line[0], *line[kept])
                out.print(titled(name, table))
    out.print()
