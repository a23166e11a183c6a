"""Options that take all the words that follow: ``--sensitive sex race`` is ``--sensitive sex --sensitive race``."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import click


class WordsOption(click.Option):
    """An option that may be given several words at once, and several times."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        settings["multiple"] = True
        super().__init__(*args, **settings)


class WordsCommand(click.Command):
    """A command that understands `WordsOption`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the option before each of its words, which click then reads as usual."""
        names = {name for param in self.params if isinstance(param, WordsOption) for name in param.opts}
        return super().parse_args(ctx, list(spread(args, names)))


def spread(args: list[str], names: Collection[str]) -> Iterator[str]:
    """Write ``--option a b`` as ``--option a --option b``.

    >>> list(spread(["x.csv", "--sensitive", "sex", "race", "--seed", "1"], ["--sensitive"]))
    ['x.csv', '--sensitive', 'sex', '--sensitive', 'race', '--seed', '1']
    """
    current, first = "", False
    for position, arg in enumerate(args):
        if arg == "--":
            yield from args[position:]
            return
        if arg.startswith("-") and len(arg) > 1:
            name = arg.partition("=")[0]
            current, first = (name if name in names else ""), "=" not in arg
        elif current:
            if not first:
                yield current
            first = False
        yield arg
