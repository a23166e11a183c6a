"""The table of the page "Choose a method" says what the committed comparison and the methods themselves say."""

from __future__ import annotations

from pathlib import Path

from glocalfair.registry import methods

ROOT = Path(__file__).parents[2]


def rows(text: str, heading: str) -> dict[str, list[str]]:
    """Read the first Markdown table below a heading: first cell → the other cells, without spreads and bold."""
    found: dict[str, list[str]] = {}
    for line in text.split(heading, 1)[1].splitlines():
        if line.startswith("|--"):
            continue
        if line.startswith("|"):
            name, *cells = (cell.strip(" `*").split(" ± ")[0] for cell in line.strip("| ").split("|"))
            found[name] = cells
        elif found:
            break
    found.pop("method")
    return found


def test_figures_and_disclosures() -> None:
    page = rows((ROOT / "docs" / "choose-method.md").read_text("utf-8"), "## What they protect")
    result = (ROOT / "experiments" / "results" / "adult-compare.md").read_text("utf-8")
    reached, excess = rows(result, "### Global: test rows"), rows(result, "### Global: excess")
    assert set(page) == set(methods())
    for name, (_, discloses, _, accuracy, sex, race) in page.items():
        assert [accuracy, discloses] == [reached[name][0], reached[name][-1]], name
        assert [sex, race] == excess[name][:2], name
