"""The terminal."""

from __future__ import annotations

from rich.console import Console


def console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console for stdout or stderr that prints text as it is.

    Group names such as ``[40, 65)`` are data: rich must not read them as its markup, or colour numbers in them.
    """
    return Console(stderr=stderr, quiet=quiet, markup=False, highlight=False, emoji=False)
