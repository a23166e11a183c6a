"""Whatever is wrong with what comes from outside: one line, exit code 2, nothing run, nothing written elsewhere."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from glocalfair.cli import main

from .bad_inputs import CASES, Case, glocalfair, good_folder
from .conftest import Faults

ROOT = Path(__file__).parents[2]
EVIL = "import pathlib\npathlib.Path('executed').touch()\n"


def tool() -> Any:
    """Load the tool that writes the page, for its way to write a line."""
    spec = importlib.util.spec_from_file_location("bad_input_table", ROOT / "tools" / "bad_input_table.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs") / "good"
    folder.mkdir()
    good_folder(folder)
    (folder / "evil.py").write_text(EVIL)
    return folder


@pytest.fixture
def folder(good: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = good.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(good, copy)
    monkeypatch.chdir(copy)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return copy


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.area}: {case.what}")
def test_one_line_and_nothing_else(case: Case, folder: Path, faults: Faults) -> None:
    case.spoil(folder)
    before = contents(folder.parent)
    done = glocalfair(case.command)
    assert done.exit_code == 2, done.output
    assert len(done.stderr.strip().splitlines()) == 1 and done.stderr.startswith("Error: "), done.stderr
    assert contents(folder.parent) == before, "something was written, or code was run"
    page = tool()
    line = page.row(case.area, case.what, page.said(done.stderr, folder))
    assert line in page.PAGE.read_text("utf-8").splitlines(), "run python tools/bad_input_table.py"
    faults.record(f"bad input: {case.area}", "refused in one line, exit code 2, nothing written")


def test_the_page_has_no_other_lines() -> None:
    page = tool().PAGE.read_text("utf-8")
    assert page.count("\n| ") == len(CASES) + 1


@pytest.mark.parametrize("command", ["rum", "run --resume half", "predict people.csv new.csv"])
def test_as_a_program(command: str, folder: Path) -> None:
    (folder / "half" / "checkpoint.safetensors").write_bytes(b"nothing")
    done = subprocess.run(
        [sys.executable, "-m", "glocalfair", *command.split()],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1 and "Traceback" not in done.stderr


def broken(*args: object, **kwargs: object) -> None:
    raise RuntimeError("two\nlines")


@pytest.mark.parametrize("name", sorted(main.commands))
def test_a_bug_is_one_line_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = main.commands[name]
    monkeypatch.setattr(command, "invoke", broken)
    monkeypatch.setattr(command, "parse_args", lambda ctx, args: [])
    done = glocalfair(name)
    assert done.exit_code == 70
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("Error: Unexpected RuntimeError: two lines. This is a bug in glocalfair: please report it")
    told = glocalfair(f"--debug {name}")
    assert told.exit_code == 70 and "Traceback (most recent call last)" in told.stderr


def test_a_coordinator_cannot_make_a_site_import_code(folder: Path) -> None:
    from glocalfair.flower.settings import Terms
    from glocalfair.flower.site import Site
    from glocalfair.flower.store import Store
    from glocalfair.flower.transport import Content

    site = Site("a", Store(folder / "site"), lambda terms: pytest.fail("the rows were read"))
    sys.path.insert(0, str(folder))
    answer = site.answer("enrol", Content({"terms": Terms("r", {"name": "evil:Method"}).to_json()}))
    assert answer.value("kind", str) == "refused" and "imports no code" in answer.value("reason", str)
    assert not (folder / "executed").exists()


NAMES = ["../../escaped", "/tmp/escaped", "..", "a/b", "con\x00trol", "x" * 300, "\n", "~", "-rf", "%2e%2e"]


def test_names_in_the_data_are_no_paths(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients, groups and columns may be called what they like: files are written where the user said, only there."""
    import polars as pl

    from tests.frame.people import people

    rows = 40 * len(NAMES)
    frame = people(rows).select("age", "income", "sex", "approved")
    frame = frame.with_columns(
        pl.Series("hospital", [NAMES[i % len(NAMES)] for i in range(rows)]),
        pl.Series("../group", [NAMES[i % 2] for i in range(rows)]),
    )
    frame.write_parquet(folder / "names.parquet")
    before = contents(folder.parent)
    said = "--label approved --sensitive sex ../group --client hospital --rounds 1"
    done = glocalfair(f"run --data names.parquet {said} --output inside --quiet")
    assert done.exit_code == 0, done.output
    assert glocalfair("run --resume inside --quiet").exit_code == 0
    assert glocalfair("report inside --output inside/page.html --figures inside/figures").exit_code == 0
    assert glocalfair("card inside -o inside/card.md").exit_code == 0
    made = set(contents(folder.parent)) - set(before)
    assert made and all((folder / "inside") in path.parents for path in made)
    assert not Path("/tmp/escaped").exists()
