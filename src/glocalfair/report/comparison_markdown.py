"""A comparison as Markdown."""

from __future__ import annotations

from glocalfair.compare.comparison import Comparison
from glocalfair.compare.notes import notes
from glocalfair.report.comparison import DAGGER, Entry, Grid, grids, title


def markdown(comparison: Comparison) -> str:
    """Write the tables and the notes; what stands out is bold."""
    parts = [f"## {title(comparison)}", *(_table(grid) for grid in grids(comparison))]
    parts.append("\n".join(f"- {_bold(note)}" for note in notes(comparison)))
    return "\n\n".join(parts) + "\n"


def _bold(note: str) -> str:
    return f"**bold**{note.removeprefix('*')}" if note.startswith("*") else note


def _table(grid: Grid) -> str:
    right = len(grid.headings) - grid.words
    lines = [
        _line(["method", *grid.headings]),
        "|---" + "|--:" * right + "|---" * grid.words + "|",
        *(
            _line([f"{line.label}{DAGGER if line.collapsed else ''}", *map(_cell, line.entries)], escape=False)
            for line in grid.lines
        ),
    ]
    return f"### {grid.title.replace('*: ', 'bold: ')}\n\n" + "\n".join(lines)


def _cell(entry: Entry) -> str:
    text = _escape(entry.text)
    return f"**{text}**" if entry.marked else text


def _line(cells: list[str], escape: bool = True) -> str:
    return "| " + " | ".join(map(_escape, cells) if escape else cells) + " |"


def _escape(text: str) -> str:
    return text.replace("|", "\\|")
