"""``glocalfair run``: what it prints, what it writes, what JSON it gives."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from glocalfair.runs import RunDirectory

from .invoke import SMALL, glocalfair, trained


def test_json_has_the_documented_keys(tmp_path: Path) -> None:
    result = trained(tmp_path / "run", "--seed", 3)
    assert result["method"] == "fedavg"
    assert result["seed"] == 3
    assert result["seconds"] > 0
    assert result["run_dir"] == str(tmp_path / "run")
    overall, local = result["global"], result["local"]
    assert isinstance(overall["accuracy"], float)
    assert isinstance(overall["positive_rate"], float)
    assert set(overall["eod"]) == set(overall["dpd"]) == {"a", "b", "a×b"}
    assert isinstance(overall["dp_dis"], float)
    for spread in (*local["eod"].values(), local["dp_dis"]):
        assert set(spread) == {"mean", "std", "defined", "clients"}
    assert isinstance(local["dis"], float)


def test_undefined_is_null_in_json(tmp_path: Path) -> None:
    result = trained(tmp_path / "run", "--partition", "by_group")
    assert result["local"]["eod"]["a"] == {"mean": None, "std": None, "defined": 0, "clients": 4}


def test_readable_output(tmp_path: Path) -> None:
    done = glocalfair("run", *SMALL, "--rounds", 3, "--output", tmp_path / "run")
    assert done.exit_code == 0
    for text in (
        "synthetic: 800 rows",
        "4 by 'by_column'",
        "fedavg: plain average",
        "the number of training examples",
        "balanced accuracy",
        "EOD a×b",
        "DP-Dis",
        "95 % interval",
        "noise floor",
        "of 4 clients",
        "lower for",
        "DIS",
    ):
        assert text in done.stdout
    assert "Round 3/3  loss ." in done.stderr
    assert "accuracy ." in done.stderr
    assert "EOD a ." in done.stderr


@pytest.mark.parametrize("width", [80, 120])
def test_tables_fit_the_terminal(tmp_path: Path, width: int) -> None:
    done = glocalfair("run", *SMALL, "--rounds", 1, "--output", tmp_path / "r", width=width)
    assert max(map(len, done.stdout.splitlines())) <= width
    assert "…" not in done.stdout


def test_quiet_prints_the_run_directory_alone(tmp_path: Path) -> None:
    done = glocalfair("run", *SMALL, "--rounds", 1, "--output", tmp_path / "run", "--quiet")
    assert done.stdout == f"{tmp_path / 'run'}\n"
    assert done.stderr == ""


def test_default_output_is_named_after_the_run_and_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = [glocalfair("run", *SMALL, "--rounds", 1, "--seed", 7, "--quiet").stdout.strip() for _ in range(3)]
    assert printed == [f"runs/synthetic-fedavg-seed7{suffix}" for suffix in ("", "-2", "-3")]


def test_a_toml_file_and_its_overrides(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[data]\nname = "synthetic"\nrows = 600\n[partition]\nname = "iid"\n[train]\nrounds = 9\n')
    arguments = ["--set", "train.lr=0.5", "--rounds", 1, "--clients", 3, "--output", tmp_path / "run", "--quiet"]
    assert glocalfair("run", path, *arguments).exit_code == 0
    written = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert written["train"]["lr"] == 0.5
    assert written["train"]["rounds"] == 1
    assert written["partition"]["clients"] == 3


def test_a_constant_classifier_is_called_collapsed(tmp_path: Path) -> None:
    arguments = ["--rounds", 4, "--set", "train.lr=0.2", "--output", tmp_path / "run"]
    usual = glocalfair("run", *SMALL, *arguments)
    assert "collapsed" not in usual.stdout
    rare = glocalfair("run", *SMALL, *arguments[:-1], tmp_path / "rare", "--set", "data.positive_rate=0.01")
    assert "the model has collapsed" in rare.stdout
    assert json.loads((tmp_path / "rare" / "result.json").read_text())["global"]["constant"]


def test_equal_seeds_give_equal_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        trained(tmp_path / name, "--seed", 5)
    for file in ("rounds.jsonl", "model.safetensors"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    trained(tmp_path / "other", "--seed", 6)
    assert (tmp_path / "one" / "rounds.jsonl").read_bytes() != (tmp_path / "other" / "rounds.jsonl").read_bytes()


def _stop_after(rounds: int, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    from glocalfair.report.progress import Progress

    original = Progress.update

    def update(self: Progress, record: Any) -> None:
        original(self, record)
        if record["round"] == rounds:
            raise error

    monkeypatch.setattr(Progress, "update", update)


@pytest.mark.parametrize(("seconds", "every", "saved"), [(60, 0, [5]), (0, 0, [1, 2, 3, 4, 5]), (60, 2, [2, 4, 5])])
def test_a_checkpoint_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, every: int, saved: list[int]
) -> None:
    found = []
    monkeypatch.setattr("glocalfair.experiment._SELDOM", seconds)
    monkeypatch.setattr(RunDirectory, "save_state", lambda self, state: found.append(state.round))
    trained(tmp_path / "run", "--set", f"run.checkpoint_every={every}", rounds=5)
    assert found == saved


@pytest.mark.parametrize("every", [0, 1, 2, 10])
def test_resume_ends_where_an_uninterrupted_run_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    settings = ["--set", f"run.checkpoint_every={every}"]
    trained(tmp_path / "whole", *settings, rounds=5)
    with monkeypatch.context() as patched:
        _stop_after(3, KeyboardInterrupt(), patched)
        cut = glocalfair("run", *SMALL, "--rounds", 5, "--output", tmp_path / "cut", *settings)
    assert cut.exit_code == 130
    assert f"Interrupted after round 3. Continue with: glocalfair run --resume {tmp_path / 'cut'}" in cut.stderr
    assert "Traceback" not in cut.stderr
    with (tmp_path / "cut" / "rounds.jsonl").open("a") as file:
        file.write('{"round": 4, "half')
    resumed = glocalfair("run", "--resume", tmp_path / "cut", "--json")
    assert resumed.exit_code == 0, resumed.output
    for name in ("rounds.jsonl", "model.safetensors"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    again = glocalfair("run", "--resume", tmp_path / "cut")
    assert "is complete" in again.stdout


def test_a_complete_run_that_was_moved_says_where_it_is(tmp_path: Path) -> None:
    first = trained(tmp_path / "run", rounds=1)
    (tmp_path / "run").rename(tmp_path / "moved")
    again = json.loads(glocalfair("run", "--resume", tmp_path / "moved", "--json").stdout)
    assert again == {**first, "run_dir": str(tmp_path / "moved")}
