"""The app that ``glocalfair flower init`` writes: Flower's own objects, run in memory as they come."""

from __future__ import annotations

import importlib
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the flower extra")

from flwr.app import Context, RecordDict

from glocalfair.errors import GlocalfairError
from glocalfair.flower.apps import site_of
from tests.flower.grid import MemoryGrid
from tests.flower.groups import SITES, glocalfair, simulated, weights_of, write_app, write_tables


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_tables(tmp_path, every=80)
    return tmp_path


def launch(app: Path, nodes: dict[int, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do what Flower does: import the two objects that pyproject.toml names, and give them its config."""
    project = tomllib.loads((app / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    monkeypatch.setattr(sys, "path", [str(app), *sys.path])
    made = {}
    for part, where in project["components"].items():
        module, _, name = where.partition(":")
        for known in [each for each in sys.modules if each.partition(".")[0] == module.partition(".")[0]]:
            monkeypatch.delitem(sys.modules, known)
        made[part] = getattr(importlib.import_module(module), name)
    grid = MemoryGrid(made["clientapp"], nodes, project["config"])
    made["serverapp"](grid, Context(1, 0, {}, RecordDict(), project["config"]))


def test_as_a_simulation_and_as_a_deployment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    virtual = {100 - place: {"partition-id": place, "num-partitions": 4} for place in range(4)}
    one = write_app(folder, "as_simulation", "glocalfair", rounds=2)
    launch(one, virtual, monkeypatch)
    real = {
        place: {"site": site, "data": str(folder / "data" / f"{site}.csv"), "state": str(folder / "state" / site)}
        for place, site in enumerate(reversed(SITES), start=7)
    }
    two = write_app(folder, "as_deployment", "glocalfair", rounds=2)
    launch(two, real, monkeypatch)
    expected = simulated(folder, one)
    for app in (one, two):
        np.testing.assert_array_equal(weights_of(app / "run" / "model.glocalfair"), expected)


def test_a_model_of_ones_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, app = folder / "schema.json", folder / "own"
    table = str(folder / "everybody.csv")
    glocalfair("flower", "schema", table, "--label", "income", "--sensitive", "sex", "race", "-o", str(schema))
    glocalfair("flower", "init", str(app), "--schema", str(schema), "--own-model", "--rounds", "1")
    nodes = {
        place: {"site": site, "data": str(folder / "data" / f"{site}.csv"), "state": str(folder / "state" / site)}
        for place, site in enumerate(SITES)
    }
    launch(app, nodes, monkeypatch)
    result = json.loads((app / "run" / "result.json").read_text())
    assert sorted(result["sites"]) == SITES
    assert (folder / "state" / SITES[0] / "model.glocalfair").exists()


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"data": "a.csv"}, "lacks 'site'"),
        ({"site": "a"}, "lacks 'data'"),
        ({"site": "a", "data": "a.csv", "shares": "weights"}, "Did you mean 'share'"),
        ({"partition-id": 2, "num-partitions": 3}, "names 0 files, but there are 3 virtual nodes"),
    ],
)
def test_mistakes_in_a_node_config(node: dict[str, Any], message: str) -> None:
    with pytest.raises(GlocalfairError, match=message):
        site_of(node, {})


def test_a_node_config_says_what_a_site_is(tmp_path: Path) -> None:
    node = {
        "site": "a",
        "data": str(tmp_path / "a.csv"),
        "share": "weights, examples",
        "constraints": "fnr",
        "tau-fnr": 0.1,
    }
    site = site_of(node, {})
    assert site.store.folder == tmp_path / "a.state"
    assert site.share == {"weights", "examples"}
    assert site.overrides == {"constraints": ["fnr"], "tau_fnr": 0.1}


def test_init_refuses_what_would_not_run(folder: Path) -> None:
    from click.testing import CliRunner

    from glocalfair.cli import main

    write_app(folder, "app", "fedavg")
    schema = str(folder / "schema.json")
    for words, message in [
        ([str(folder / "app"), "--schema", schema], "is not empty"),
        ([str(folder / "new"), "--schema", schema, "--method", "fedavgg"], "Did you mean 'fedavg'"),
        ([str(folder / "new"), "--schema", str(folder / "everybody.csv")], "Cannot read the schema"),
        ([str(folder / "new"), "--schema", schema, "--data", str(folder / "*.txt")], "at least one file"),
        (
            [str(folder / "new"), "--schema", schema, "--data", str(folder / "data/*.csv"), "--sites", "a"],
            "names of the",
        ),
    ]:
        done = CliRunner().invoke(main, ["flower", "init", *words])
        assert done.exit_code == 2 and message in done.output, done.output
    assert not (folder / "new").exists()
