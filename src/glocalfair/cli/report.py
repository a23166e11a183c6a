"""``glocalfair report``: one page about some runs."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from glocalfair.errors import GlocalfairError


@click.command("report", short_help="Write one HTML page about some runs.")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN…")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("report.html"),
    show_default=True,
    metavar="FILE",
    help="The page.",
)
@click.option("--title", metavar="TEXT", help="Heading of the page.")
@click.option(
    "--figures", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Also write SVG files."
)
@click.option("--png", is_flag=True, help="With --figures: PNG files too (needs Chromium).")
def report_command(runs: tuple[Path, ...], output: Path, title: str | None, figures: Path | None, png: bool) -> None:
    """Write one HTML page about some runs: verdict, tables, figures, settings.

    RUN is a run directory, or a directory that holds run directories. Runs that differ in the seed alone are put
    together; a FedAvg run among them is what the others are compared with. The page needs no network.

    \b
    Examples:
      glocalfair report runs
      glocalfair report runs/adult-fedavg-seed0 runs/adult-glocalfair-seed0 -o adult.html
      glocalfair report runs --figures figures
    """
    from glocalfair.report.html.build import write_report

    if png and figures is None:
        raise GlocalfairError("'--png' needs a directory: give '--figures DIR' too.")
    arguments = ["glocalfair", "report", *map(str, runs), "-o", str(output)]
    written = write_report(runs, output, title, figures, png=png, command=shlex.join(arguments))
    click.echo(f"{output} ({output.stat().st_size / 1024:.0f} KB)")
    if figures is not None:
        click.echo(f"{len(written) - 1} figures in {figures}")
