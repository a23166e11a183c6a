"""Terminal, Markdown, LaTeX, CSV and JSON show the same numbers."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from glocalfair.compare import Comparison
from glocalfair.data.partition import PartitionSpec
from glocalfair.report.comparison import Grid, grids
from glocalfair.report.comparison_csv import COLUMNS, comma_separated
from glocalfair.report.comparison_latex import latex
from glocalfair.report.comparison_markdown import markdown
from glocalfair.report.comparison_terminal import terminal
from glocalfair.report.text import figure

from .small import compared, small

Cells = list[tuple[str, ...]]


@pytest.fixture(scope="module", params=["usual", "collapsed"])
def comparison(
    request: pytest.FixtureRequest, finished: tuple[Comparison, Path], tmp_path_factory: pytest.TempPathFactory
) -> Comparison:
    if request.param == "usual":
        return finished[0]
    config = replace(small(positive_rate=0.02), partition=PartitionSpec(name="by_group"))
    return compared(tmp_path_factory.mktemp("collapsed"), "fedavg", "qffl", config=config)


def expected(comparison: Comparison) -> Cells:
    return [(line.label, *(e.text for e in line.entries)) for grid in grids(comparison) for line in grid.lines]


def marks(comparison: Comparison) -> int:
    return sum(entry.marked for grid in grids(comparison) for line in grid.lines for entry in line.entries)


def printed(comparison: Comparison, width: int) -> str:
    out = Console(width=width, record=True, file=io.StringIO())
    for part in terminal(comparison, out):
        out.print(part)
    return out.export_text()


def test_markdown(comparison: Comparison) -> None:
    text = markdown(comparison)
    found: Cells = []
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| method"):
            cells = [cell.strip().replace("**", "") for cell in line.strip("|").split("|")]
            found.append((cells[0].rstrip("†"), *cells[1:]))
    assert found == expected(comparison)
    assert sum(cell.strip().startswith("**") for cell in text.split("|")) == marks(comparison)


def test_latex(comparison: Comparison) -> None:
    text = latex(comparison)
    found: Cells = []
    for body in re.findall(r"\\midrule\n(.*?)\\bottomrule", text, re.S):
        for line in body.strip().split(" \\\\\n"):
            plain = re.sub(r"\\textbf\{(.*?)\}", r"\1", line.removesuffix(" \\\\"))
            for tex, letter in (("$\\pm$", "±"), ("$-$", "−"), ("--", "–"), ("$^\\dagger$", ""), ("\\_", "_")):
                plain = plain.replace(tex, letter)
            found.append(tuple(plain.split(" & ")))
    assert found == expected(comparison)
    assert text.count("\\textbf{") == marks(comparison)
    assert text.count("\\toprule") == len(list(grids(comparison)))


def _lines(comparison: Comparison, text: str) -> Iterator[tuple[str, ...]]:
    labels = {row.label for row in comparison.rows}
    for line in text.split("Figures are mean")[0].splitlines():
        first, _, rest = line.partition(" ")
        if first.rstrip("†") in labels and rest.strip():
            yield first.rstrip("†"), rest.replace("*", " ")


def test_terminal(comparison: Comparison) -> None:
    found = [(label, rest.split()) for label, rest in _lines(comparison, printed(comparison, 200))]
    assert found == [(label, " ".join(cells).split()) for label, *cells in expected(comparison)]


def test_a_narrow_terminal_loses_nothing(comparison: Comparison) -> None:
    text = printed(comparison, 80)
    assert max(map(len, text.splitlines())) <= 80
    words = text.replace("*", " ").split()
    for _, *cells in expected(comparison):
        assert all(word in words for cell in cells for word in cell.split())
    assert "Discloses" in text


def test_csv_and_json_have_the_numbers_of_the_tables(comparison: Comparison) -> None:
    lines = list(csv.DictReader(io.StringIO(comma_separated(comparison))))
    assert tuple(lines[0]) == COLUMNS
    rows = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))["methods"]
    assert len(lines) == len(comparison.rows) * len(comparison.figures)
    shown = {grid.title: grid for grid in grids(comparison)}
    title = next(each for each in shown if each.startswith("Global: test rows"))
    for row in rows:
        for line in (line for line in lines if line["method"] == row["label"]):
            key = ".".join(filter(None, (line["view"], line["metric"], line["attribute"])))
            cell = row["cells"][key]
            for name in ("value", "mean", "std", "pooled"):
                assert (float(line[name]) if line[name] else None) == cell[name]
            assert (int(line["defined"]), int(line["possible"])) == (cell["defined"], cell["possible"])
            told = cell["difference"]
            assert (float(line["difference"]) if line["difference"] else None) == (told and told["mean"])
            if line["view"] == "global":
                assert _shown(shown[title], row["label"], line).startswith(figure(cell["value"]))


def _shown(grid: Grid, label: str, line: dict[str, str]) -> str:
    names = {"accuracy": "accuracy", "positive_rate": "positive rate", "dp_dis": "DP-Dis", "eod": "EOD"}
    heading = " ".join(filter(None, (names[line["metric"]], line["attribute"])))
    entries = next(each for each in grid.lines if each.label == label).entries
    return entries[grid.headings.index(heading)].text


def test_collapse_is_shown_everywhere(comparison: Comparison) -> None:
    dead = any(row.collapsed for row in comparison.rows)
    texts = (markdown(comparison), printed(comparison, 120))
    assert all(("†" in text) is dead for text in texts)
    assert ("$^\\dagger$" in latex(comparison)) is dead
