"""``glocalfair data``: look at a set of pictures and decode it, before any training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from glocalfair.cli.group import Group
from glocalfair.errors import GlocalfairError, unknown

if TYPE_CHECKING:
    from glocalfair.config import Config
    from glocalfair.data.entry import DatasetEntry


@click.group("data", cls=Group, short_help="Check and prepare sets of pictures; say where to get them.")
def data_command() -> None:
    """Check and prepare sets of pictures, and say where to get them.

    \b
    Examples:
      glocalfair data get celeba
      glocalfair data check utkface --root ~/UTKFace
      glocalfair data prepare utkface --root ~/UTKFace --set side=64
    """


def _common(command: Any) -> Any:
    for option in (
        click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Options of the set, as in [data]."),
        click.option(
            "--root", metavar="DIR", help="Folder of the data; by default the folder of its name in GLOCALFAIR_DATA."
        ),
        click.argument("name"),
    ):
        command = option(command)
    return command


@data_command.command("get", short_help="Say where to get a set, and under which licence.")
@click.argument("name")
def get_command(name: str) -> None:
    """Say where to get a set of pictures, and under which licence."""
    entry = _entry(name)
    click.echo(f"{entry.get}\nLicence: {entry.licence}")


@data_command.command("check", short_help="Count what is there; nothing is decoded or written.")
@_common
def check_command(name: str, root: str | None, settings: tuple[str, ...]) -> None:
    """Count the pictures of a set by label and group, and name what cannot be used. Nothing is decoded or written."""
    from glocalfair.data.images import check_listing

    entry, options = _chosen(name, root, settings)
    for line in check_listing(entry, options):
        click.echo(line)


@data_command.command("prepare", short_help="Decode the pictures once, for all later runs.")
@_common
def prepare_command(name: str, root: str | None, settings: tuple[str, ...]) -> None:
    """Decode the pictures of a set into a cache that every later run opens in a moment."""
    from glocalfair.data.images.listing import notices, summary

    entry, options = _chosen(name, root, settings)
    told = summary(*prepared(entry, options))
    for line in notices(told):
        click.echo(line)
    how = "decoded" if told["fresh"] else "were there already"
    size = f"{told['bytes'] / 1e6:.0f} MB"
    click.echo(f"{told['pictures']:,} pictures of {told['side']} × {told['side']} {how}: {told['cache']} ({size})")


def prepared(entry: DatasetEntry, options: Any, silent: bool = False) -> Any:
    """Decode the pictures of a set, if that has not been done yet, with a progress bar where somebody is watching."""
    from rich import progress as bar

    from glocalfair.report.console import console

    assert entry.prepare is not None
    err = console(stderr=True, quiet=silent)
    with bar.Progress(
        bar.TextColumn("Decoding pictures"),
        bar.BarColumn(bar_width=20),
        bar.MofNCompleteColumn(),
        bar.TimeRemainingColumn(compact=True),
        console=err,
        transient=True,
        disable=silent or not err.is_terminal,
    ) as shown:
        task = shown.add_task("", total=None, visible=False)
        return entry.prepare(options, lambda done, total: shown.update(task, completed=done, total=total, visible=True))


def decode_first(config: Config, silent: bool) -> None:
    """Decode the pictures of an experiment before anything else, so that its progress is seen."""
    from glocalfair.data.registry import build_options, datasets

    entry = datasets().get(config.data["name"])
    if entry is not None and entry.prepare is not None:
        prepared(entry, build_options(entry, {k: v for k, v in config.data.items() if k != "name"}), silent)


def _entry(name: str) -> DatasetEntry:
    from glocalfair.data.registry import datasets

    known = {key: entry for key, entry in datasets().items() if entry.prepare is not None}
    if name not in known:
        raise unknown("set of pictures", name, known)
    return known[name]


def _chosen(name: str, root: str | None, settings: tuple[str, ...]) -> tuple[DatasetEntry, Any]:
    from glocalfair.config import parse_value
    from glocalfair.data.registry import build_options

    entry = _entry(name)
    values: dict[str, Any] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals:
            raise GlocalfairError(f"'--set' must be key=value, for instance --set side=64. Got '{text}' instead.")
        values[key.strip().removeprefix("data.")] = parse_value(value.strip())
    if root is not None:
        values["root"] = str(Path(root).expanduser().resolve())
    return entry, build_options(entry, values)
