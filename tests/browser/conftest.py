"""A real headless Chromium, and the page it opens."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from glocalfair.report.html.build import write_report

from ..report.samples import HOSTILE, write_pair, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Open = Callable[..., "Opened"]


@dataclass
class Opened:
    """A page, and everything it complained about or asked the network for."""

    page: Page
    troubles: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start Chromium once."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("needs chromium: install Debian's package 'chromium'")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of two methods with two seeds each."""
    folder = tmp_path_factory.mktemp("report")
    write_report([write_pair(folder / "runs")], folder / "report.html", command="glocalfair report runs")
    return folder / "report.html"


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of a run whose names try to be markup."""
    folder = tmp_path_factory.mktemp("hostile")
    bad = f"{HOSTILE}</script><script>alert(2)</script>"
    rates = {bad: (0.6, 0.1), "other": (0.7, 0.1)}
    write_run(folder / "run", rates, method="glocalfair", attribute=bad, data=bad, clients=(bad, "south"))
    write_report([folder / "run"], folder / "report.html")
    return folder / "report.html"


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Return a function that opens a file at a width and in a colour scheme."""
    contexts = []

    def opened(path: Path, width: int = 1280, scheme: Any = "light") -> Opened:
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        contexts.append(context)
        seen = Opened(context.new_page())
        seen.page.on("console", lambda message: seen.troubles.append(message.text))
        seen.page.on("pageerror", lambda error: seen.troubles.append(str(error)))
        seen.page.on("dialog", lambda dialog: (seen.troubles.append(dialog.message), dialog.dismiss()))
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.goto(path.as_uri())
        return seen

    yield opened
    for context in contexts:
        context.close()
