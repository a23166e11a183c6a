"""A comparison in the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from glocalfair.compare.comparison import Comparison
from glocalfair.compare.notes import notes
from glocalfair.report.comparison import DAGGER, Entry, Grid, Line, grids, title

_LONG = 11


def terminal(comparison: Comparison, console: Console) -> Iterator[RenderableType]:
    """Give the tables and the notes, as wide as the console allows."""
    yield Text(title(comparison), style="bold")
    yield Text("")
    for grid in grids(comparison):
        yield from _fitting(grid, console)
        yield Text("")
    yield Text("\n".join(notes(comparison)), style="dim")


def _fitting(grid: Grid, console: Console) -> Iterator[RenderableType]:
    """Lay a grid out; where it is too wide its column of words goes below it."""
    table = _table(grid)
    words = grid.words
    if words and Measurement.get(console, console.options.update(max_width=10_000), table).maximum > console.width:
        rest = Grid(
            grid.title,
            grid.headings[:-1],
            tuple(Line(line.label, line.collapsed, line.entries[:-1]) for line in grid.lines),
        )
        told = Table.grid(padding=(0, 2))
        told.add_column(no_wrap=True)
        told.add_column(overflow="fold")
        for line in grid.lines:
            told.add_row(line.label, line.entries[-1].text)
        yield Group(Text(grid.title, style="bold"), _table(rest))
        yield Group(Text(f"\n{grid.headings[-1].capitalize()}", style="bold"), told)
        return
    yield Group(Text(grid.title, style="bold"), table)


def _table(grid: Grid) -> Table:
    # One space between columns: a second one is the place of the mark.
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", padding=0)
    table.add_column("", no_wrap=True)
    numbers = len(grid.headings) - grid.words
    for number, text in enumerate(grid.headings):
        if number < numbers:
            short = text if len(text) <= _LONG else text.replace(" ", "\n", 1)
            table.add_column("\n".join(f"{part} " for part in short.split("\n")), justify="right")
        else:
            table.add_column(text)
    for line in grid.lines:
        name = Text(f"{line.label}{DAGGER if line.collapsed else ''}")
        table.add_row(name, *(_cell(entry, place < numbers) for place, entry in enumerate(line.entries)))
    return table


def _cell(entry: Entry, number: bool) -> Text:
    if not number:
        return Text(entry.text)
    return Text(f"{entry.text}{'*' if entry.marked else ' '}", style="bold" if entry.marked else "")
