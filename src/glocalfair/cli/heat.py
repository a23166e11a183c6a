"""``glocalfair heat``: what the models of some runs look at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from glocalfair.cli.own_data import allow_own_model, refuse_import

if TYPE_CHECKING:
    from glocalfair.config import Config


@click.command("heat", short_help="Show what the models of some picture runs look at (Grad-CAM).")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN…")
@click.option("--pictures", type=click.IntRange(1, 40), default=6, show_default=True, help="Test pictures to show.")
@click.option(
    "--rows", type=click.IntRange(2), default=1000, show_default=True, help="Test pictures that the shares are over."
)
@click.option("--layer", default="", metavar="NAME", help="Layer to look at; by default the last that is fine enough.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("heat.png"),
    show_default=True,
    metavar="FILE",
    help="The pictures, side by side.",
)
@click.option("--allow-import", is_flag=True, help="Import the own model that a run names.")
def heat_command(
    runs: tuple[Path, ...], pictures: int, rows: int, layer: str, output: Path, allow_import: bool
) -> None:
    """Show what the models of some picture runs look at, by Grad-CAM.

    Writes a PNG with the heat maps of some test pictures side by side, prints the share of heat in named regions and
    how much it differs between groups, and leaves both in each run directory for 'glocalfair report'.

    \b
    Examples:
      glocalfair heat runs/celeba-fedavg-seed0 runs/celeba-glocalfair-seed0
      glocalfair heat runs/* --pictures 12 -o looks.png
    """
    from glocalfair.report.console import console
    from glocalfair.report.heat import heat_tables
    from glocalfair.report.html.load import find
    from glocalfair.vision.heat import Looks, examine, sheet

    def allow(path: Path) -> None:
        def check(config: Config) -> None:
            refuse_import(config, path, allow_import)
            allow_own_model(config)

        looks.append(Looks.of(path, check))

    looks: list[Looks] = []
    for path in find(runs):
        allow(path)
    found = examine(looks, pictures, rows, layer)
    sheet(found, output)
    out = console()
    for table in heat_tables(found):
        out.print(table)
    click.echo(f"{output}: {pictures} pictures, one column for each run after the original")
