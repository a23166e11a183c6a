"""What a reader of a reproduced table must know, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from glocalfair.compare.comparison import Figure, Row
from glocalfair.report.comparison import heading
from glocalfair.report.text import figure, plural
from glocalfair.reproduce.sheet import Part, Sheet

_VIEWS = {"local": "local ", "spread": "std of local "}


def named(column: Figure) -> str:
    """Write the heading of a column, with the view that it belongs to.

    >>> named(Figure("spread", "eod", "sex")), named(Figure("local", "dis"))
    ('std of local EOD sex', 'DIS')
    """
    view = "" if column.metric == "dis" else _VIEWS.get(column.view, "")
    return f"{view}{heading(column)}"


def notes(sheet: Sheet) -> tuple[str, ...]:
    """Give the notes that apply: about the paper's figures first, then about ours."""
    return tuple(dict.fromkeys((*_paper(sheet), *sheet.table.notes, *_ours(sheet))))


def title(sheet: Sheet) -> str:
    """Write the title of the whole."""
    return f"Table {sheet.table.name.removeprefix('table')} on {sheet.source.title}: {sheet.table.title.lower()}"


def warning(sheet: Sheet) -> str:
    """Say that a quick run proves nothing; empty for the others."""
    if sheet.budget_name != "quick":
        return ""
    rounds = sheet.parts[0].comparison.config["train"]["rounds"]
    spent = f"{plural(sheet.budget.seeds, 'seed')} of {plural(rounds, 'round')}"
    return f"A quick run ({spent}) shows that everything works. Its figures prove nothing."


def _paper(sheet: Sheet) -> Iterator[str]:
    ours, theirs = sheet.source, sheet.paper_source
    if sheet.borrowed:
        used = {column.attribute for column in sheet.figures()}
        pairs = zip(ours.attributes, ours.paper_attributes, theirs.paper_attributes, strict=True)
        other = ", ".join(
            f"{their} where ours is {name}" for name, our, their in pairs if name in used and our != their
        )
        yield (
            f"The paper has no figures of this table for {ours.title}. Shown are those for {theirs.title}, another "
            f"task{f' ({other})' if other else ''}: compare the pattern, not the numbers."
        )
    yield (
        "Ratio: a figure divided by the same figure of the baseline, which has 1.00. Absolute values depend on "
        "preprocessing that the paper does not give; ratios do so less."
    )
    settings = dict.fromkeys(part.setting.paper for part in sheet.parts)
    for setting in settings:
        for doubt in sheet.table.doubts_on(sheet.source.name, setting):
            if any(doubt.about(row.paper, column.key) for row in sheet.table.rows for column in sheet.table.columns):
                yield f"‡ the paper contradicts itself: {doubt.why}"


def _ours(sheet: Sheet) -> Iterator[str]:
    if sheet.budget.seeds > 1:
        yield f"Ours: mean ± standard deviation (n − 1) over {sheet.budget.seeds} seeds; bold is the best of a column."
    else:
        yield "Ours: one seed, so there is no ±; bold is the best of a column."
    rows = [row for part in sheet.parts for row in part.comparison.rows]
    yield from _methods(rows)
    for part in sheet.parts:
        yield from _collapsed(part)
        yield from _floors(part)
    if any(cell.defined < cell.possible for row in rows for cell in row.cells.values()):
        yield (
            "(d/n): defined on d of n, counted over clients (local) and seeds; the mean is over those. A client has a "
            "gap if it holds two groups, and an EOD if both have positives and negatives."
        )


def _methods(rows: Sequence[Row]) -> Iterator[str]:
    if split := list(dict.fromkeys(row.label for row in rows if row.split)):
        yield (
            f"{' and '.join(split)} protect one attribute at a time and ran once for each: the EOD of an attribute is "
            "from the run that protects it, everything else is the mean over these runs."
        )
    averaged = dict.fromkeys((row.method, row.averaged) for row in rows if row.averaged > 1)
    for method, number in averaged:
        yield f"{method}'s final model is the mean of its last {number} global models, the others' is the last one."


def _collapsed(part: Part) -> Iterator[str]:
    if collapsed := [row for row in part.comparison.rows if row.collapsed]:
        told = ", ".join(f"{row.label} in {row.collapsed} of {len(row.runs)} runs" for row in collapsed)
        yield (
            f"† collapsed ({part.setting.title}: {told}): such a model gives (almost) everybody the same answer, so it "
            "has no gaps without being fair, and is never marked as best."
        )


def _floors(part: Part) -> Iterator[str]:
    columns = {each.key: each for each in part.comparison.figures}
    told = [f"{named(columns[key])} {figure(value)}" for key, value in part.floors.items()]
    if told:
        yield f"A perfectly fair model would show so much by chance ({part.setting.title}): {', '.join(told)}."
