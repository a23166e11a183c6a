"""A comparison as LaTeX; needs the package booktabs."""

from __future__ import annotations

from glocalfair.compare.comparison import Comparison
from glocalfair.compare.notes import notes
from glocalfair.report.comparison import Entry, Grid, Line, grids, title

_LETTERS = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "±": "$\\pm$",
    "−": "$-$",
    "–": "--",
    "×": "$\\times$",
    "†": "$\\dagger$",
    "…": "\\dots{}",
}


def latex(comparison: Comparison) -> str:
    """Write one table environment for each table, and the notes; what stands out is bold."""
    parts = [f"% {title(comparison)}. Needs \\usepackage{{booktabs}}."]
    parts += [_table(grid) for grid in grids(comparison)]
    told = [note.replace("*:", "Bold:", 1) if note.startswith("*") else note for note in notes(comparison)]
    parts.append("{\\footnotesize\n" + " \\\\\n".join(map(escape, told)) + "\n\\par}")
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    r"""Write text so that LaTeX prints it.

    >>> escape("a_b × 5 %")
    'a\\_b $\\times$ 5 \\%'
    """
    return "".join(_LETTERS.get(letter, letter) for letter in text)


def _table(grid: Grid) -> str:
    columns = "l" + "r" * (len(grid.headings) - grid.words) + "l" * grid.words
    lines = [
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{escape(grid.title.replace('*: ', 'bold: '))}}}",
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        " & ".join(["method", *map(escape, grid.headings)]) + " \\\\",
        "\\midrule",
        *map(_line, grid.lines),
        "\\bottomrule",
        "\\end{tabular}",
        "\\end{table}",
    ]
    return "\n".join(lines)


def _line(line: Line) -> str:
    name = escape(line.label) + ("$^\\dagger$" if line.collapsed else "")
    return " & ".join([name, *map(_cell, line.entries)]) + " \\\\"


def _cell(entry: Entry) -> str:
    # \pm in bold maths needs \boldmath, which \textbf does not switch on.
    return f"\\textbf{{{escape(entry.text)}}}" if entry.marked else escape(entry.text)
