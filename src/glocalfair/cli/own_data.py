"""The options for a table of the user's own, and how it is shown before the training."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from glocalfair.cli.words import WordsOption
from glocalfair.errors import GlocalfairError

if TYPE_CHECKING:
    from glocalfair.config import Config
    from glocalfair.types import Federation

F = TypeVar("F", bound=Callable[..., Any])

FLAGS = ("label", "positive", "sensitive", "client", "drop", "keep")
NATURAL = [("partition.name", "by_column"), ("partition.min_rows", 1)]
"""A client column says who holds what, however small a client is."""


def data_options(command: F) -> F:
    """Add ``--data`` and what belongs to it to a command (a `WordsCommand`)."""
    for option in reversed(
        [
            click.option("--data", metavar="FILE", help="Your own table: a CSV or Parquet file."),
            click.option("--label", metavar="COLUMN", help="The column to predict; it has two values."),
            click.option("--positive", metavar="VALUE", help="Which of them is positive, if it is not obvious."),
            click.option(
                "--sensitive",
                cls=WordsOption,
                metavar="COLUMN …",
                help="Sensitive columns; a number in bins: age:<40 or age:25,40,60.",
            ),
            click.option("--client", metavar="COLUMN", help="The column that names the organisation of a row."),
            click.option("--drop", cls=WordsOption, metavar="COLUMN …", help="Columns the model must not see."),
            click.option("--keep", cls=WordsOption, metavar="COLUMN …", help="Columns to use whatever they look like."),
        ]
    ):
        command = option(command)
    return command


def data_overrides(experiment: str | None, flags: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the settings that the options stand for, to be applied before all others.

    >>> flags = {"data": "/data/people.csv", "label": "approved", "sensitive": ("sex",)}
    >>> [value for key, value in data_overrides("my.toml", flags)]
    ['frame', '/data/people.csv', 'approved', ['sex']]
    """
    data = flags.get("data")
    given = {name: flags[name] for name in FLAGS if flags.get(name)}
    if data is None and experiment is None and given:
        raise GlocalfairError(f"'--{next(iter(given))}' needs '--data FILE', or an experiment file with your own data.")
    found: list[tuple[str, Any]] = []
    if data is not None:
        found += [("data.name", "frame"), ("data.path", str(Path(data).resolve()))]
    found += [(f"data.{name}", list(value) if isinstance(value, tuple) else value) for name, value in given.items()]
    if "client" in given:
        found += NATURAL
    elif data is not None and experiment is None:
        found += [("partition.name", "iid"), ("partition.min_rows", 1)]
    if experiment is None and data is not None:
        from glocalfair.data.frame.options import TRAINING

        found += [(f"train.{name}", value) for name, value in TRAINING.items()]
        found += [("method.name", "glocalfair")]
    return found


def show_data(federation: Federation, silent: bool, quiet: bool) -> None:
    """Show how the data were understood, and what to look at; with ``--json`` only the latter, on stderr."""
    if quiet:
        return
    for notice in federation.about.get("notices", ()):
        click.echo(f"Note: {notice}", err=silent)
    if "profile" not in federation.about:
        return
    from glocalfair.data.frame.profile import Profile
    from glocalfair.report.console import console

    profile = Profile.from_dict(federation.about["profile"])
    out = console(stderr=silent)
    if not silent:
        out.print(profile.render(out.width), soft_wrap=True)
        out.print()
    for warning in profile.warnings:
        out.print(f"Warning: {warning}")
    if profile.warnings and not silent:
        out.print()


def allow_own_model(config: Config) -> None:
    """Let a model or method that the user asks for by name be found in the current directory."""
    if _own_code(config):
        find_own_code()


def _own_code(config: Config) -> str:
    """Return what the experiment imports, in words; empty if nothing."""
    names = {"model": config.model.name, "method": str(config.method["name"])}
    return " and ".join(f"the {what} '{name}'" for what, name in names.items() if ":" in name)


def find_own_code() -> None:
    """Import from the current directory, as ``python -m`` does; an installed program would not."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def refuse_import(config: Config, where: Path, allowed: bool) -> None:
    """Refuse to import a model or method that a file from somewhere else names, unless the user allows it."""
    own = _own_code(config)
    if own and not allowed:
        raise GlocalfairError(
            f"'{where}' asks to import {own}, which runs its code. If you trust it, add --allow-import."
        )
