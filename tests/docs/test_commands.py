"""Every command and every Python block that the documentation shows is run, in order, in an empty folder."""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from glocalfair.cli import main
from glocalfair.registry import methods

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(?:<!-- test: (?P<note>[^\n]*?) -->\n)?```(?P<language>\w+)\n(?P<body>.*?)^```", re.M | re.S)
NOT_RUN = {
    "make run": "it installs the package; CI does it on a clean clone",
    "make test": "it runs this test",
    "make bench": "it takes half an hour; a test runs the program in a tiny form",
    "make bench-quick": "it takes minutes; a test runs the program in a tiny form",
    "glocalfair data check utkface --root UTKFace": "it needs the pictures; tests/images runs it on written ones",
    "glocalfair data prepare utkface --root UTKFace --set side=64": "the same",
    "glocalfair run utkface --method glocalfair": "it needs the pictures; tests/images runs made-up faces",
    "glocalfair run celeba --budget full": "the same",
    "python experiments/faces.py utkface": "it needs the pictures and hours; tests/images runs it on made-up faces",
    "python experiments/faces.py celeba": "the same",
    "python experiments/faces.py utkface --paper": "the same",
    "python experiments/faces.py celeba --paper": "the same",
    "python benchmarks/images.py --steps 20 --turns 3": "it takes minutes; tests/images runs it in a tiny form",
    "python benchmarks/images.py --memory": "the same",
    "make docs": "it installs the tools; tests/docs/test_site.py builds the site",
    "pip install -c constraints.txt -e .": "it needs the network; the slow wheel test installs everything",
}


class Block(NamedTuple):
    """A code block, and the words of the `test:` comment above it."""

    language: str
    body: str
    note: list[str]


def blocks(page: Path) -> Iterator[Block]:
    for found in BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield Block(found["language"], found["body"], shlex.split(found["note"] or ""))


def commands(block: Block) -> Iterator[str]:
    """Give the commands of a shell block; in a console block they follow a prompt."""
    for line in block.body.splitlines():
        command = line.partition("  #")[0].strip()
        if block.language == "console":
            command = command.removeprefix("$ ") if command.startswith("$ ") else ""
        if command:
            yield command


def run(command: str, extra: list[str]) -> None:
    program, *arguments = shlex.split(command)
    if command in NOT_RUN:
        return
    assert program == "glocalfair", f"{command!r} is neither run nor in NOT_RUN with a reason"
    if arguments[0] in ("run", "compare", "tune", "reproduce"):
        arguments += extra
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, f"{command}: {done.output}"


def run_python(block: Block, page: Path, namespace: dict[str, object]) -> None:
    with warnings.catch_warnings():
        # A reader of the page sees the warnings about the small table; they are no errors.
        warnings.simplefilter("default")
        exec(compile(block.body, page.name, "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    namespace: dict[str, object] = {}
    for block in blocks(page):
        kind, *rest = block.note or [""]
        assert kind in ("", "short", "file"), f"unknown note {block.note}"
        if kind == "file":
            Path(rest[0]).write_text(block.body, encoding="utf-8")
            monkeypatch.delitem(sys.modules, Path(rest[0]).stem, raising=False)
        elif block.language in ("bash", "console"):
            for command in commands(block):
                run(command, rest if kind == "short" else [])
        elif block.language == "python":
            run_python(block, page, namespace)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_readme_lists_methods_that_exist() -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Methods")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `([^`]+)`", section, re.M)) <= set(methods())
