"""The tables of a sheet before they get their form: headings and cells, the same for every renderer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from glocalfair.report.comparison import DAGGER, write
from glocalfair.report.text import DASH, figure, is_defined
from glocalfair.reproduce.notes import named
from glocalfair.reproduce.sheet import Beside, Part, Sheet

DOUBT = "‡"
UNDEFINED = "undefined"


@dataclass(frozen=True)
class Grid:
    """A table of texts; `marked` are the cells (line, column) that stand out."""

    caption: str
    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    marked: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class _Block:
    """The columns of one kind, global or local: a table with both would be too wide to read."""

    kind: str
    headings: tuple[str, ...]
    labels: tuple[str, ...]
    cells: tuple[tuple[Beside, ...], ...]


def _blocks(sheet: Sheet, part: Part) -> Iterator[_Block]:
    columns = sheet.figures()
    lines = [(f"{row.label}{DAGGER if ours.collapsed else ''}", cells) for row, ours, cells in sheet.lines(part)]
    kinds = ["global" if column.view == "global" else "local" for column in columns]
    for kind in dict.fromkeys(kinds):
        kept = [place for place, each in enumerate(kinds) if each == kind]
        yield _Block(
            kind,
            tuple(named(columns[place]) for place in kept),
            tuple(label for label, _ in lines),
            tuple(tuple(cells[place] for place in kept) for _, cells in lines),
        )


def grids(sheet: Sheet, part: Part) -> Iterator[Grid]:
    """Give the figures with the paper's in columns of their own, and then their ratios to the baseline."""
    paper = f"paper ({sheet.paper_source.title})" if sheet.borrowed else "paper"
    for block in _blocks(sheet, part):
        headings = ("method", *(text for name in block.headings for text in (name, paper)))
        values = [[text for cell in cells for text in (_ours(cell), _paper(cell))] for cells in block.cells]
        ratios = [
            [text for cell in cells for text in map(_ratio, (cell.ratio, cell.paper_ratio))] for cells in block.cells
        ]
        best = {
            (number, 1 + 2 * place)
            for number, cells in enumerate(block.cells)
            for place, cell in enumerate(cells)
            if cell.ours.best
        }
        yield Grid(f"{block.kind.capitalize()} figures", headings, _labelled(block, values), frozenset(best))
        yield Grid(f"{block.kind.capitalize()} figures, ratio to {base(sheet)}", headings, _labelled(block, ratios))


def beside(sheet: Sheet, part: Part) -> Iterator[Grid]:
    """Give the same for a terminal: the paper's figure in brackets behind ours, which has no ±."""
    for block in _blocks(sheet, part):
        headings = ("method", *block.headings)
        values = [[f"{write(cell.ours, brief=True)} ({_paper(cell)})" for cell in cells] for cells in block.cells]
        ratios = [[f"{_ratio(cell.ratio)} ({_ratio(cell.paper_ratio)})" for cell in cells] for cells in block.cells]
        yield Grid(f"{block.kind} figures (the paper's)", headings, _labelled(block, values))
        yield Grid(f"ratio to {base(sheet)} (the paper's)", headings, _labelled(block, ratios))


def base(sheet: Sheet) -> str:
    """Name the row that ratios are to."""
    row = next(row for row in sheet.table.rows if row.paper == sheet.table.baseline)
    return f"the method's own '{row.label.removeprefix(f'{row.variant}, ')}'" if row.variant else row.label


def _labelled(block: _Block, texts: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple((label, *line) for label, line in zip(block.labels, texts, strict=True))


def _ours(cell: Beside) -> str:
    return write(cell.ours) if is_defined(cell.ours.value) else UNDEFINED


def _paper(cell: Beside) -> str:
    return f"{printed(cell.paper)}{DOUBT if cell.doubted else ''}"


def printed(value: float) -> str:
    """Write a figure of the paper with the digits that it has.

    >>> printed(0.45), printed(0.838), printed(0.5), printed(float("nan"))
    ('.45', '.838', '.50', '–')
    """
    text = figure(value)
    return text[:-1] if text.endswith("0") else text


def _ratio(value: float) -> str:
    return f"{value:.2f}" if is_defined(value) else DASH
