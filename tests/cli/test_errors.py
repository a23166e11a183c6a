"""Whatever a user gets wrong: one line on stderr that helps, exit code 2, nothing written."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from .invoke import SMALL, glocalfair, trained

MISTAKES = {
    "unknown command": (["rum"], r"Unknown command 'rum'. Did you mean 'run'\?"),
    "unknown option": (["run", "adult", "--metod", "x"], r"No such option.*--metod.*--method"),
    "unknown list": (["list", "metods"], r"Unknown list 'metods'. Did you mean 'methods'\?"),
    "no experiment": (["run"], r"Which experiment\? For instance 'glocalfair run adult'"),
    "unknown experiment": (["run", "adlut"], r"Unknown experiment 'adlut'. Did you mean 'adult'\?"),
    "unknown method": (["run", "adult", "--method", "fedavgg"], r"Unknown method 'fedavgg'. Did you mean 'fedavg'\?"),
    "unknown partition": (["run", "adult", "--partition", "dirichle"], r"Did you mean 'dirichlet'\?"),
    "unknown section": (["run", "adult", "--set", "trian.lr=1"], r"Unknown section 'trian'. Did you mean 'train'\?"),
    "unknown key": (["run", "adult", "--set", "train.round=1"], r"'round'. Did you mean 'rounds'\?"),
    "unknown data": (["run", "adult", "--set", "data.name=adlt"], r"Unknown data 'adlt'. Did you mean 'adult'\?"),
    "unknown data option": (["run", "adult", "--set", "data.rase=multi"], r"'rase'. Did you mean 'race'\?"),
    "unknown column": (["run", "adult", "--set", 'data.sensitive=["sexx"]'], r"'sexx'. Did you mean 'sex'\?"),
    "unknown model": (["run", *SMALL, "--set", "model.name=mpl"], r"Unknown model 'mpl'. Did you mean 'mlp'\?"),
    "unknown setting": (["run", *SMALL, "--set", "method.tau=1"], r"Unknown setting of method 'fedavg' 'tau'"),
    "no column": (["run", "adult", "--partition", "by_column"], r"column"),
    "not a pair": (["run", "adult", "--set", "train.lr"], r"'--set' must be section.key=value"),
    "no section": (["run", "adult", "--set", "lr=1"], r"'--set' must be section.key=value"),
    "not a number": (["run", "adult", "--rounds", "many"], r"'--rounds'.*'many' is not a valid integer"),
    "wrong type": (["run", "adult", "--set", "train.rounds=many"], r"'rounds' must be a whole number"),
    "too few rounds": (["run", "adult", "--rounds", "0"], r"'train.rounds' must be .* at least 1. Got 0"),
    "negative seed": (["run", "adult", "--seed", "-1"], r"'run.seed' must be"),
    "unused clients": (["run", "adult", "--clients", "9"], r"'by_group' does not use 'clients'.*dirichlet"),
    "too many clients": (
        ["run", *SMALL, "--partition", "iid", "--clients", "700"],
        r"'client-\d+' holds .* 'min_rows'",
    ),
    "not a run": (["run", "--resume", "nowhere"], r"'nowhere' is not a run directory"),
    "resume and more": (["run", "adult", "--resume", "nowhere"], r"'--resume' continues a run with its own settings"),
    "missing file": (["run", "nothing.toml"], r"Cannot read the experiment 'nothing.toml'"),
    "broken file": (["run", "broken.toml"], r"'broken.toml' is not valid TOML: .*line 1"),
    "binary file": (["run", "binary.toml"], r"Cannot read the experiment 'binary.toml'"),
    "a folder": (["run", "folder"], r"Cannot read the experiment 'folder'"),
    "section as value": (["run", "flat.toml"], r"'train' must be a section"),
    "output is a file": (["run", *SMALL, "--output", "flat.toml"], r"[Cc]annot write.*'flat.toml'"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "broken.toml").write_text("[train\n")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "flat.toml").write_text("train = 3\n")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_line(folder: Path, mistake: str) -> None:
    arguments, expected = MISTAKES[mistake]
    done = glocalfair(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("Error: ")
    assert re.search(expected, lines[0]), lines[0]
    assert not (folder / "runs").exists()


def test_a_directory_that_holds_a_run_is_refused(tmp_path: Path) -> None:
    trained(tmp_path / "run", rounds=1)
    before = (tmp_path / "run" / "rounds.jsonl").read_bytes()
    done = glocalfair("run", *SMALL, "--output", tmp_path / "run")
    assert done.exit_code == 2
    assert "already holds a run" in done.stderr
    assert (tmp_path / "run" / "rounds.jsonl").read_bytes() == before


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    # A file in the way stops everybody, root included, where missing permissions would not.
    (tmp_path / "file").touch()
    targets = [tmp_path / "file" / "run"]
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o500)
    if not os.access(locked, os.W_OK):
        targets.append(locked / "run")
    for target in targets:
        done = glocalfair("run", *SMALL, "--output", target)
        assert done.exit_code == 2
        assert re.fullmatch(r"Error: Cannot write to the output directory '.*': .*\.\n", done.stderr)


def test_debug_adds_the_traceback() -> None:
    done = glocalfair("--debug", "run", "adlut")
    assert done.exit_code == 2
    assert "GlocalfairError" in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("Error: Unknown experiment")
