"""The tables of ``glocalfair list``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table


def _cell(key: str, value: Any) -> str:
    if key == "discloses":
        # The kinds, each once; the sentences are in --json, in the run's heading and in the documentation.
        return ", ".join(dict.fromkeys(str(item["what"]).replace("_", " ") for item in value))
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def list_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Lay rows with equal keys out as a table; the keys are the headings, a reference goes into the description."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    keys = [key for key in (rows[0] if rows else ()) if key != "reference"]
    for key in keys:
        # The description takes what is left; a name is never broken.
        table.add_column(key, no_wrap=key == "name", overflow="fold", ratio=None if key != "description" else 1)
    for row in rows:
        cells = {key: _cell(key, row[key]) for key in keys}
        if row.get("reference"):
            cells["description"] += f" ({row['reference']})"
        table.add_row(*cells.values())
    return table
