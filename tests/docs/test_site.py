"""The documentation site builds without a warning and fetches nothing from outside."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FETCHING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "embed": "src", "object": "data"}
LOADED_LINKS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload", "manifest"}


class Resources(HTMLParser):
    """Collects what a browser fetches to show a page; links that a reader may follow are not among it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in FETCHING:
            self.found.append(values.get(FETCHING[tag]) or "")
        elif tag == "link" and LOADED_LINKS & set((values.get("rel") or "").split()):
            self.found.append(values.get("href") or "")


def outside(address: str) -> bool:
    return re.match(r"\s*(https?:)?//", address, re.I) is not None


def resources(html: str) -> list[str]:
    parser = Resources()
    parser.feed(html)
    return parser.found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_no_page_fetches_anything_from_outside(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        found = [address for address in resources(page.read_text(encoding="utf-8")) if outside(address)]
        assert not found, f"{page.name} fetches {found}"
    for sheet in site.rglob("*.css"):
        text = re.sub(r"url\(\s*[\"']?data:[^)]*\)", "", sheet.read_text(encoding="utf-8"))
        assert not re.search(r"(url\(\s*[\"']?|@import\s+[\"'])(https?:)?//", text), sheet


def test_outside_resources_would_be_seen() -> None:
    html = '<link rel="stylesheet" href="https://a.b/c.css"><script src="//a.b/x.js"></script><a href="https://a.b">'
    assert [outside(address) for address in resources(html)] == [True, True]


def test_formulas_are_mathml(site: Path) -> None:
    page = (site / "method.html").read_text(encoding="utf-8")
    assert page.count("<math") >= 10
    assert "arithmatex" not in page and "$$" not in page


def test_the_reference_has_every_command_setting_and_method(site: Path) -> None:
    import dataclasses

    from glocalfair.cli import main
    from glocalfair.config import TrainConfig
    from glocalfair.registry import methods

    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert all(f"glocalfair {name}" in commands for name in main.commands)
    settings = (site / "reference" / "settings.html").read_text(encoding="utf-8")
    assert all(f"<code>{field.name}</code>" in settings for field in dataclasses.fields(TrainConfig))
    for kind in methods().values():
        assert all(f"<code>{field.name}</code>" in settings for field in dataclasses.fields(kind))
