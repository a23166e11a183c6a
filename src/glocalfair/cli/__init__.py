"""The command line: ``glocalfair run``, ``glocalfair list`` and their help.

Each command is a module with a click command in it. Whatever is slow to import (torch, rich) is imported inside
the function that needs it, so that ``glocalfair --help`` answers at once.
"""

from __future__ import annotations

import click

from glocalfair import __version__
from glocalfair.cli.audit import audit_command
from glocalfair.cli.bundles import card_command, export_command, predict_command
from glocalfair.cli.compare import compare_command
from glocalfair.cli.data import data_command
from glocalfair.cli.flower import flower_command
from glocalfair.cli.group import Group
from glocalfair.cli.heat import heat_command
from glocalfair.cli.init import init_command
from glocalfair.cli.listing import list_command
from glocalfair.cli.report import report_command
from glocalfair.cli.reproduce import reproduce_command
from glocalfair.cli.run import run_command
from glocalfair.cli.tune import tune_command

__all__ = ["main"]


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
)
@click.version_option(__version__, prog_name="glocalfair", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def main(debug: bool) -> None:
    """Federated learning that is fair over everyone and inside each organisation.

    \b
    Examples:
      glocalfair run adult                  train on Adult with 4 organisations, see the tables
      glocalfair init people.csv            write an experiment file for your own table
      glocalfair list methods               what can be trained, and what it discloses
      glocalfair run adult --method fedavg --partition dirichlet --clients 8 --alpha 0.5

    Every command explains itself: glocalfair run --help
    """


main.add_command(run_command)
main.add_command(compare_command)
main.add_command(tune_command)
main.add_command(init_command)
main.add_command(flower_command)
main.add_command(audit_command)
main.add_command(predict_command)
main.add_command(export_command)
main.add_command(card_command)
main.add_command(data_command)
main.add_command(heat_command)
main.add_command(list_command)
main.add_command(report_command)
main.add_command(reproduce_command)
