"""The user's own table and own model from the command line, with no code."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glocalfair.config import load

from ..frame.people import people
from .invoke import glocalfair

FLAGS = ["--label", "approved", "--positive", "yes", "--sensitive", "sex", "race", "--client", "hospital"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    people().write_csv(tmp_path / "people.csv")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path


def run(*arguments: object) -> dict[str, Any]:
    done = glocalfair("run", *arguments, "--json")
    assert done.exit_code == 0, done.output
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_all_flags(folder: Path) -> None:
    done = glocalfair("run", "--data", "people.csv", *FLAGS, "--rounds", 3, "--drop", "letter", "name")
    assert done.exit_code == 0, done.output
    for words in ("approved", "positive is 'yes'", "hospital", "3 by 'by_column'", "Warning: Left out, dates"):
        assert words in done.stdout
    written = tomllib.loads((folder / "runs" / "people-glocalfair-seed0" / "config.toml").read_text())
    assert written["data"]["path"] == str(folder / "people.csv")
    assert written["data"]["sensitive"] == ["sex", "race"]
    assert written["data"]["drop"] == ["letter", "name"]
    assert (folder / "runs" / "people-glocalfair-seed0" / "model.glocalfair").exists()


def test_words_may_also_be_given_one_by_one(folder: Path) -> None:
    one = run("--data", "people.csv", *FLAGS, "--rounds", 1)
    flags = ["--sensitive", "sex", "--sensitive=race", "--client", "hospital", "--label", "approved"]
    other = run("--data", "people.csv", *flags, "--rounds", 1)
    assert one["global"] == other["global"]
    assert set(one["global"]["eod"]) == {"sex", "race", "sex×race"}


def test_without_a_client_column_rows_are_dealt_out(folder: Path) -> None:
    flags = ["--data", "people.csv", "--label", "approved", "--sensitive", "age:<40", "--rounds", 1]
    assert run(*flags)["local"]["accuracy"]["clients"] == 4
    result = run(*flags, "--partition", "dirichlet", "--clients", 3, "--method", "fedavg")
    assert result["local"]["accuracy"]["clients"] == 3 and result["method"] == "fedavg"


def test_warnings_go_to_stderr_with_json_and_nowhere_with_quiet(folder: Path) -> None:
    flags = ["run", "--data", "people.csv", *FLAGS, "--rounds", 1]
    assert "Warning: Leak? 'letter'" in glocalfair(*flags, "--json").stderr
    assert glocalfair(*flags, "--quiet").stderr == ""


def test_a_toml_file_finds_its_table_from_anywhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "mine.toml").write_text(
        '[data]\nname = "frame"\npath = "../people.csv"\nlabel = "approved"\nsensitive = ["sex"]\nclient = "hospital"\n'
        '[partition]\nname = "by_column"\n[train]\nrounds = 1\n'
    )
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    first = run("../sub/mine.toml")
    assert load(str(folder / "elsewhere" / first["run_dir"] / "config.toml")).data["path"] == str(folder / "people.csv")
    other = run("../sub/mine.toml", "--sensitive", "race", "--data", "../people.csv")
    assert set(other["global"]["eod"]) == {"race"}


def test_init_writes_a_file_that_runs(folder: Path) -> None:
    done = glocalfair("init", "people.csv", "--label", "approved", "--yes")
    assert done.exit_code == 0, done.output
    text = (folder / "people.toml").read_text()
    assert text.count("#") > 15
    values = tomllib.loads(text)
    age, *others = values["data"]["sensitive"]
    assert age.startswith("age:<") and others == ["sex", "race"]
    assert values["data"]["client"] == "hospital" and values["data"]["path"] == "people.csv"
    assert run("people.toml", "--rounds", 1)["rounds"] == 1
    again = glocalfair("init", "people.csv", "--label", "approved", "--yes")
    assert again.exit_code == 2 and "exists already" in again.stderr


def test_init_asks(folder: Path) -> None:
    from click.testing import CliRunner

    from glocalfair.cli import main

    answers = "people.csv\napproved\nyes\nsex age:<40\nhospital\n{}\n"
    kept = CliRunner().invoke(main, ["init", "--output", "all.toml"], input=answers.format("n"))
    assert tomllib.loads((folder / "all.toml").read_text())["data"]["drop"] == [], kept.output
    done = CliRunner().invoke(main, ["init", "--output", "mine.toml"], input=answers.format("y"))
    assert done.exit_code == 0 and "left out, since they give the label away: letter." in done.output, done.output
    values = tomllib.loads((folder / "mine.toml").read_text())["data"]
    assert (values["label"], values["positive"], values["client"]) == ("approved", "yes", "hospital")
    assert values["sensitive"] == ["sex", "age:<40"] and values["drop"] == ["letter"]


def test_data_that_changed_are_noticed(folder: Path) -> None:
    directory = Path(run("--data", "people.csv", *FLAGS, "--rounds", 2)["run_dir"])
    (directory / "result.json").unlink()
    people().with_columns(sex=people()["sex"].reverse()).write_csv("people.csv")
    done = glocalfair("run", "--resume", directory, "--quiet")
    assert done.exit_code == 2 and "The data have changed since the run" in done.stderr
    people().write_csv("people.csv")
    assert glocalfair("run", "--resume", directory, "--quiet").exit_code == 0


def test_names_of_all_kinds(folder: Path) -> None:
    names = {"sex": "sex / gender", "age": "Größe (cm)", "race": "a:b", "income": "", "job": 'he said "hi", ok'}
    people().drop("person_id", "name", "born").rename(names).write_parquet("strange names.parquet")
    assert glocalfair("init", "strange names.parquet", "--label", "approved", "--yes").exit_code == 0
    assert run("strange names.toml", "--rounds", 1)["global"]["eod"].keys() == {"sex / gender"}
    flags = ["--label", "approved", "--sensitive", "sex / gender", "a:b", "Größe (cm):<40", "--rounds", 1]
    directory = run("--data", "strange names.parquet", *flags)["run_dir"]
    assert glocalfair("predict", directory, "strange names.parquet").exit_code == 0
    assert glocalfair("card", directory).exit_code == 0
    refused = glocalfair("export", directory, "--onnx", "model.onnx")
    assert refused.exit_code == 2 and "cannot be an input of an ONNX model" in refused.stderr


MODEL = """
import torch

def small(inputs):
    return torch.nn.Sequential(torch.nn.Linear(inputs, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))

def wide(inputs):
    return torch.nn.Linear(inputs, 3)

def word(inputs):
    return "model"

def broken(inputs):
    raise RuntimeError("no")
"""


def test_an_own_model_from_the_current_directory(folder: Path) -> None:
    (folder / "my_first_model.py").write_text(MODEL)
    flags = ["--data", "people.csv", *FLAGS, "--rounds", 2, "--set", "model.name=my_first_model:small"]
    result = run(*flags)
    assert result["rounds"] == 2
    directory = Path(result["run_dir"])
    (directory / "result.json").unlink()
    refused = glocalfair("run", "--resume", directory)
    assert refused.exit_code == 2 and "add --allow-import" in refused.stderr
    assert glocalfair("run", "--resume", directory, "--allow-import", "--json").exit_code == 0


BAD = {
    "wide": r"one logit for each row",
    "word": r"must return a torch.nn.Module with weights. Got str",
    "broken": r"could not be made with \d+ inputs: RuntimeError: no",
    "absent": r"Cannot load the model 'my_bad_models:absent'",
}


@pytest.mark.parametrize("name", BAD)
def test_own_models_that_do_not_fit(folder: Path, name: str) -> None:
    import re

    (folder / "my_bad_models.py").write_text(MODEL)
    flags = ["--data", "people.csv", *FLAGS, "--rounds", 1, "--set", f"model.name=my_bad_models:{name}"]
    done = glocalfair("run", *flags, "--quiet")
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert re.search(BAD[name], done.stderr), done.stderr


MISTAKES = {
    "no data": (["run", "--label", "approved"], "'--label' needs '--data FILE'"),
    "no label": (["run", "--data", "people.csv"], "Which column is the label?"),
    "no file": (["run", "--data", "peple.csv", *FLAGS], "no such file"),
    "no column": (["run", "--data", "people.csv", "--label", "aproved"], "Did you mean 'approved'?"),
    "no value": (["run", "--data", "people.csv", *FLAGS, "--positive", "yep"], "Did you mean 'yes'?"),
    "not frame": (["run", "adult", "--label", "income"], "Unknown 'adult' option 'label'"),
    "init without file": (["init", "--yes"], "Which file?"),
    "init mistyped": (["init", "people.csv", "--label", "aproved", "--yes"], "Did you mean 'approved'?"),
    "init method": (["init", "people.csv", "--label", "approved", "--method", "fedavgg", "--yes"], "'fedavg'?"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_line(folder: Path, mistake: str) -> None:
    arguments, expected = MISTAKES[mistake]
    done = glocalfair(*arguments)
    assert done.exit_code == 2
    assert expected in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert not (folder / "runs").exists() and not (folder / "people.toml").exists()


@pytest.mark.parametrize("rows", [6, 12, 30])
def test_a_small_table_runs(folder: Path, rows: int) -> None:
    people(rows, seed=3).select("age", "income", "sex", "approved").write_csv("small.csv")
    result = run("--data", "small.csv", "--label", "approved", "--sensitive", "sex", "--rounds", 1)
    assert result["rounds"] == 1


def test_compas(tmp_path: Path) -> None:
    root = os.environ.get("GLOCALFAIR_DATA")
    table = Path(root or ".") / "compas" / "compas-scores-two-years.csv"
    if root is None or not table.exists():
        pytest.skip("needs GLOCALFAIR_DATA with compas/compas-scores-two-years.csv")
    flags = ["run", "--data", table, "--label", "two_year_recid", "--sensitive", "race", "sex", "--rounds", 2]
    done = glocalfair(*flags, "--json", "--output", tmp_path / "run")
    assert done.exit_code == 0, done.stderr
    told = " ".join(done.stderr.split())
    assert "Leak? 'is_recid' alone predicts the label 'two_year_recid' almost perfectly" in told
    assert "Too good? Each of r_days_from_arrest, end, event alone removes most errors" in told
    for words in ("decile_score", "identifiers", "dates", "dob", "c_charge_desc", "Native American (18)"):
        assert words in told
    attributes = json.loads((tmp_path / "run" / "result.json").read_text())["counts"]["global"]["attributes"]
    assert len(attributes[0]["values"]) == 6


# Tables that ship with the PyPI package causaldata: Chinese rice farmers who were offered a weather insurance, village
# by village, and men in the US census of 1960, by state of birth.
TABLES = {
    "social_insure/Cai_2015.csv": ("takeup_survey", ["male", "age:<50"], "village", 44),
    "mortgages/fetter_mortgages.csv": ("home_ownership", ["nonwhite", "vet_wwko"], "bpl", 51),
}


@pytest.mark.parametrize("table", TABLES)
def test_tables_from_elsewhere(tmp_path: Path, table: str) -> None:
    found = importlib.util.find_spec("causaldata")
    assert found is not None and found.submodule_search_locations
    path = Path(found.submodule_search_locations[0]) / table
    label, sensitive, client, clients = TABLES[table]
    flags = ["--data", path, "--label", label, "--sensitive", *sensitive, "--client", client, "--rounds", 1]
    result = run(*flags, "--output", tmp_path / "run", "--set", "train.batch_size=512")
    assert result["local"]["accuracy"]["clients"] >= clients - 3
    assert set(sensitive[0].split(":")[:1]) <= set(result["global"]["eod"])
