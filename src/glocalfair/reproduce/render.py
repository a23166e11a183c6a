"""A sheet as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator

from glocalfair.report.comparison_latex import escape
from glocalfair.reproduce.grids import Grid, grids
from glocalfair.reproduce.notes import notes, title, warning
from glocalfair.reproduce.sheet import Sheet

_MATHS = {"α": "\\alpha", "γ": "\\gamma", "τ": "\\tau", "→": "\\to", "≤": "\\leq", "‡": "\\ddagger"}
COLUMNS = (
    *("table", "data", "federation", "method", "figure", "value", "std", "defined", "possible", "ratio"),
    *("paper_row", "paper_data", "paper", "paper_ratio", "contradicted", "collapsed_runs", "runs"),
)


def markdown(sheet: Sheet) -> str:
    """Write the whole sheet; what stands out is bold."""
    parts = [f"# {title(sheet)}", f"The paper's claim: {sheet.table.claim}"]
    parts += [f"**{told}**"] if (told := warning(sheet)) else []
    for part in sheet.parts:
        parts += [f"## {part.setting.title}", *([part.setting.note] if part.setting.note else [])]
        for grid in grids(sheet, part):
            parts += [f"{grid.caption}:", _pipes(grid)]
    parts += ["## Notes", "\n".join(f"- {note}" for note in notes(sheet))]
    parts += ["## How it was made", "\n".join(f"- {line}" for line in provenance(sheet, code="`"))]
    return "\n\n".join(parts) + "\n"


def provenance(sheet: Sheet, code: str = "") -> Iterator[str]:
    """Say how the sheet was made."""
    made, train = sheet.made, sheet.parts[0].comparison.config["train"]
    yield f"{code}{made.command}{code}"
    seeds = sheet.parts[0].comparison.repeats
    over = f"Seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"Seed {seeds[0]}"
    yield f"{over}, {train['rounds']} rounds, participation {train['participation']:g}."
    there = f" ({made.already_there} were there already)" if made.already_there else ""
    took = f"{made.training_seconds:.0f} s together"
    yield f"Wall time {made.wall_seconds:.0f} s for {made.runs} runs{there}, which took {took}."
    yield ", ".join(f"{name} {number}" for name, number in made.versions.items()) + "."


def _pipes(grid: Grid) -> str:
    lines = ["| " + " | ".join(grid.headings) + " |", "|---" + "|--:" * (len(grid.headings) - 1) + "|"]
    for number, line in enumerate(grid.lines):
        cells = (f"**{text}**" if (number, place) in grid.marked else text for place, text in enumerate(line))
        lines.append("| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |")
    return "\n".join(lines)


def latex(sheet: Sheet) -> str:
    """Write one table environment for each federation and kind, then the notes; needs booktabs and graphicx."""
    parts = [f"% {title(sheet)}. Needs \\usepackage{{booktabs,graphicx}}."]
    parts += [f"% {line}" for line in provenance(sheet)]
    for part in sheet.parts:
        parts += [
            _tabular(grid, f"{title(sheet)}. {part.setting.title}. {grid.caption}.") for grid in grids(sheet, part)
        ]
    told = [text for text in (warning(sheet), *notes(sheet)) if text]
    parts.append("{\\footnotesize\n" + " \\\\\n".join(map(_letters, told)) + "\n\\par}")
    return "\n\n".join(parts) + "\n"


def _letters(text: str) -> str:
    escaped = escape(text)
    for letter, command in _MATHS.items():
        escaped = escaped.replace(letter, f"${command}$")
    return escaped


def _tabular(grid: Grid, caption: str) -> str:
    lines = []
    for number, line in enumerate(grid.lines):
        texts = [_letters(text) for text in line]
        cells = (f"\\textbf{{{text}}}" if (number, place) in grid.marked else text for place, text in enumerate(texts))
        lines.append(" & ".join(cells) + " \\\\")
    return "\n".join(
        [
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{_letters(caption)}}}",
            "\\resizebox{\\linewidth}{!}{%",
            f"\\begin{{tabular}}{{l{'r' * (len(grid.headings) - 1)}}}",
            "\\toprule",
            " & ".join(map(_letters, grid.headings)) + " \\\\",
            "\\midrule",
            *lines,
            "\\bottomrule",
            "\\end{tabular}}",
            "\\end{table}",
        ]
    )


def comma_separated(sheet: Sheet) -> str:
    """Write one line for each federation, method and figure, all digits; what is undefined is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for part in sheet.parts:
        for row, ours, cells in sheet.lines(part):
            for cell in cells:
                mine = cell.ours
                values = (
                    *(sheet.table.name, sheet.source.name, part.setting.title, row.label, cell.figure.key),
                    *(mine.value, mine.std, mine.defined, mine.possible, cell.ratio),
                    *(row.paper, sheet.paper_source.name, cell.paper, cell.paper_ratio, int(cell.doubted)),
                    *(ours.collapsed, len(ours.runs)),
                )
                writer.writerow("" if isinstance(v, float) and math.isnan(v) else v for v in values)
    return out.getvalue()
