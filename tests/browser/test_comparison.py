"""The report of a comparison of all methods of the paper: one made here in short form, and the full one of the docs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Open

EXAMPLE = Path(__file__).parents[2] / "docs" / "example-report.html"
METHODS = {"fedavg", "qffl", "gifair", "fairfed", "fedfb", "glocalfair", "glocalfair-paper"}


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compare over two seeds of two rounds by the command line, and write the report."""
    folder = tmp_path_factory.mktemp("comparison")
    where = ("--output", str(folder / "runs"))
    _glocalfair("compare", "adult", "--seeds", "2", "--rounds", "2", "--quiet", *where)
    _glocalfair("report", str(folder / "runs"), "--output", str(folder / "report.html"))
    return folder / "report.html"


def _glocalfair(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "glocalfair", *arguments], check=True, capture_output=True)


@pytest.fixture(params=["short", "example"])
def comparison(request: pytest.FixtureRequest) -> Path:
    """Return the path of either report."""
    return EXAMPLE if request.param == "example" else Path(request.getfixturevalue("short"))


@pytest.mark.parametrize("width", [1280, 375])
def test_is_quiet_small_and_complete(open_page: Open, comparison: Path, width: int) -> None:
    seen = open_page(comparison, width)
    assert comparison.stat().st_size < 5_000_000
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    table = seen.page.locator("#results table").first.inner_text()
    assert {line.split()[0] for line in table.splitlines() if line.strip()} >= METHODS
    assert seen.page.locator("figure.chart").count() >= 6
    assert seen.troubles == []
    assert seen.requests == [comparison.as_uri()]


def test_a_method_comes_forward_with_its_band(open_page: Open, comparison: Path) -> None:
    seen = open_page(comparison)
    figure = seen.page.locator("figure[data-name=training]")
    band = figure.locator("path.area[data-s=glocalfair]").first
    assert not band.is_visible()
    figure.locator("select[data-series]").select_option("glocalfair")
    assert band.is_visible()
    assert not figure.locator("path.area[data-s=fedavg]").first.is_visible()
    assert "off" in (figure.locator(".panels g[data-s=fedavg]").first.get_attribute("class") or "")
    assert seen.troubles == []


def test_every_choice_shows_one_view(open_page: Open, comparison: Path) -> None:
    seen = open_page(comparison)
    for figure in seen.page.locator("figure.chart").all():
        for select in figure.locator("select[data-choice]").all():
            for index in range(select.locator("option").count()):
                select.select_option(index=index)
                assert figure.locator(".view:visible").count() == 1
    assert seen.troubles == []
