"""The share of heat in regions, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from glocalfair.report.text import figure


def heat_tables(found: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Lay out one table for each attribute: a line for each region, a column for each run."""
    first = found[0]
    names = [f"{told['method']}, seed {told['seed']}" for told in found]
    tables = []
    for attribute in first["differences"] or [""]:
        about = f"{first['pictures']:,} test pictures, layer {first['layer']}"
        title = f"Share of heat ({about}); in brackets the difference between groups of '{attribute}'"
        table = Table(title=title if attribute else f"Share of heat ({about})", title_justify="left")
        table.add_column("region", no_wrap=True)
        for name in names:
            table.add_column(name)
        for region in first["shares"]:
            table.add_row(region, *(_cell(told, attribute, region) for told in found))
        tables.append(table)
    return tables


def _cell(told: Mapping[str, Any], attribute: str, region: str) -> str:
    gap = told["differences"].get(attribute, {}).get(region, {})
    if gap.get("difference") is None:
        return figure(told["shares"][region])
    low, high = gap["interval"]
    return f"{figure(told['shares'][region])} ({figure(gap['difference'])}: {figure(low)} to {figure(high)})"
