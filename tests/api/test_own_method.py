"""A method of the user's own: named as module:Class, run, compared, and never imported because a file says so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from glocalfair.card import card
from glocalfair.cli import main
from glocalfair.compare.entries import names, split_settings
from glocalfair.errors import GlocalfairError
from glocalfair.registry import method

SOURCE = """
from dataclasses import dataclass
from typing import ClassVar
from pathlib import Path
from glocalfair.methods.base import Method

Path("imported").touch()

@dataclass(frozen=True)
class Mine(Method):
    name: ClassVar[str] = "mine"
    power: float = 1.0

@dataclass(frozen=True)
class Taken(Method):
    name: ClassVar[str] = "fedavg"
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "an_own_method", raising=False)
    Path("an_own_method.py").write_text(SOURCE)
    return "an_own_method"


def test_settings_are_checked(module: str) -> None:
    assert method(f"{module}:Mine", {"power": 2.0}).name == "mine"
    with pytest.raises(GlocalfairError, match="Did you mean 'power'"):
        method(f"{module}:Mine", {"powr": 2.0})


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("an_own_method:Nothing", "Cannot load the method"),
        ("no_such_module:Mine", "Cannot load the method"),
        ("an_own_method:Path", "must be a subclass"),
        ("an_own_method:Taken", "which no method of glocalfair has"),
    ],
)
def test_what_is_no_method_is_explained(module: str, name: str, told: str) -> None:
    with pytest.raises(GlocalfairError, match=told):
        method(name)


def test_files_of_others_import_nothing(module: str) -> None:
    run = ["run", "synthetic", "--set", "data.rows=300", "--rounds", "1", "--output", "mine", "--quiet"]
    done = CliRunner().invoke(main, [*run, "--method", f"{module}:Mine"])
    assert done.exit_code == 0, done.output
    del sys.modules[module]
    Path("imported").unlink()
    assert "a method of one's own" in card(Path("mine"))
    assert CliRunner().invoke(main, ["report", "mine", "--output", "report.html"]).exit_code == 0
    Path("mine/result.json").unlink()
    refused = CliRunner().invoke(main, ["run", "--resume", "mine"])
    assert refused.exit_code == 2 and "--allow-import" in refused.output
    assert not Path("imported").exists()
    assert CliRunner().invoke(main, ["run", "--resume", "mine", "--allow-import", "--quiet"]).exit_code == 0
    assert Path("imported").exists()


def test_names_and_settings_in_a_comparison() -> None:
    assert names("fedavg,my.module:Mine") == ("fedavg", "my.module:Mine")
    assert split_settings([("method.my.module:Mine.deep.key", 1)])[1] == {"my.module:Mine": {"deep": {"key": 1}}}
