"""One look for every table in the terminal."""

from __future__ import annotations

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from glocalfair.report.text import plural


def plain_table(first: str, *numbers: str) -> Table:
    """Return a table with a left-aligned first column and right-aligned numbers under the given headings."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    table.add_column(first, no_wrap=True, overflow="ellipsis")
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def titled(title: str, table: Table, left_out: int = 0, noun: str = "row") -> Group:
    """Put a title above a table and, if lines were left out, how many below it.

    A title of rich's own would be wrapped to the width of the table.
    """
    below = [Text(f"… and {plural(left_out, f'more {noun}')}")] if left_out > 0 else []
    return Group(Text(title, style="bold"), table, *below)
