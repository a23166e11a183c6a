"""``glocalfair flower certs``: certificates and keys for a trial."""

from __future__ import annotations

from pathlib import Path

import click

from glocalfair.cli.words import WordsCommand, WordsOption


@click.command("certs", cls=WordsCommand, short_help="Make certificates and keys for a trial deployment.")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.option(
    "--host",
    "hosts",
    cls=WordsOption,
    metavar="NAME …",
    help="Names or IP addresses of the SuperLink's machine, beside localhost and 127.0.0.1.",
)
@click.option("--sites", cls=WordsOption, metavar="SITE …", help="Sites to make key pairs for.")
@click.option("--days", type=int, default=365, show_default=True, metavar="N", help="How long certificates are valid.")
def certs(folder: Path, hosts: tuple[str, ...], sites: tuple[str, ...], days: int) -> None:
    """Make a CA, the SuperLink's certificate and a key pair for each site, for a trial.

    Private files can be read by you alone; nothing is ever replaced. Who runs this holds every private key, which is
    fine for a trial and wrong for production: there each site makes its own.

    \b
    Examples:
      glocalfair flower certs certificates --sites north south
      glocalfair flower certs certificates --host flower.example.org 192.0.2.7 --sites north south
    """
    from glocalfair.flower.certs import next_commands, write

    files = write(folder, hosts, sites, days)
    click.echo(f"{len(files)} files in {folder}. Next:\n")
    for line in next_commands(folder, hosts, sites):
        click.echo(line)
