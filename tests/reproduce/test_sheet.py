"""A table from runs: ratios, sharing, continuing, and what is said where a figure does not exist."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from glocalfair.reproduce import Sheet, read_source, read_table
from glocalfair.reproduce.notes import notes
from glocalfair.reproduce.render import latex, markdown
from glocalfair.reproduce.runs import configure, federations
from glocalfair.reproduce.spec import Budget
from glocalfair.reproduce.write import write

from .small import SOURCE, made, table


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def sheet(root: Path) -> Sheet:
    return made(root)


def test_ratios(sheet: Sheet) -> None:
    lines = {row.label: cells for row, _, cells in sheet.lines(sheet.parts[0])}
    plain, fair = lines["fedavg"][0], lines["glocalfair, γ = 0.6"][0]
    assert plain.ratio == plain.paper_ratio == 1
    assert fair.ratio == sum(fair.ours.values) / sum(plain.ours.values)
    assert fair.paper_ratio == 0.09 / 0.45
    # The paper has no such row.
    assert lines["glocalfair, γ = 0"][0].paper_ratio != lines["glocalfair, γ = 0"][0].paper_ratio


def test_another_table_shares_the_runs(sheet: Sheet, root: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("result.json")}
    other = made(root, table("table2", "local.eod.0", "spread.eod.0", "local.dis"))
    assert (sheet.made.runs, other.made.runs, other.made.already_there) == (6, 6, 6)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("result.json")} == before


def test_a_row_that_is_the_default_shares_its_run(root: Path) -> None:
    rows = [
        {"label": "fedavg", "method": "fedavg"},
        {"label": "default", "method": "glocalfair"},
        {"label": "spelt out", "method": "glocalfair", "settings": {"gamma": 0.6}},
    ]
    (part,) = federations(table(rows=rows, variants=[]), SOURCE, Budget(1, 2), root, {})
    assert len(part.jobs) == 3
    assert len({job.path for job in part.jobs}) == 2


def test_tables_1_and_2_have_the_same_runs_and_table_5_some_of_them(tmp_path: Path) -> None:
    source = read_source("adult")
    paths = [
        {job.path for part in federations(read_table(name), source, Budget(2), tmp_path, {}) for job in part.jobs}
        for name in ("table1", "table2", "table5")
    ]
    assert paths[0] == paths[1]
    # FedAvg and γ = 0.6, the default of both presets.
    assert len(paths[0] & paths[2]) == 2 * 3


def test_continuing(tmp_path: Path) -> None:
    first = made(tmp_path)
    next(tmp_path.rglob("result.json")).unlink()
    second = made(tmp_path)
    assert (first.made.already_there, second.made.already_there) == (0, 5)
    assert second.parts[0].comparison.rows[0].cells == first.parts[0].comparison.rows[0].cells


def test_tuned_settings_apply_to_every_row_of_the_method_and_the_tables_own_win(tmp_path: Path) -> None:
    tuned = {"glocalfair": {"dual_lr": 0.25, "gamma": 5.0}}
    (part,) = federations(table(), SOURCE, Budget(1, 2), tmp_path, tuned)
    assert [entry.settings for entry in part.entries] == [
        {},
        {"dual_lr": 0.25, "gamma": 0.0},
        {"dual_lr": 0.25, "gamma": 0.6},
    ]


def test_one_group_clients_have_no_local_gap(tmp_path: Path) -> None:
    setting = {"title": "One group each", "partition": {"name": "by_group"}, "note": "Nothing to compare."}
    rows = [{"label": "fedavg", "method": "fedavg"}]
    doubts = [{"data": "celeba", "cells": ["*:local.eod.0"], "why": "It cannot exist."}]
    small = table(
        "table2",
        "local.eod.0",
        "local.dis",
        federations={"made-up": [setting]},
        rows=rows,
        doubts=doubts,
        paper={"celeba": {"main": {"fedavg": [0.21, 0.346]}}},
    )
    text = markdown(made(tmp_path, small))
    line = next(line for line in text.splitlines() if line.startswith("| fedavg"))
    assert "| undefined | .21‡ |" in line
    assert "Nothing to compare." in text
    assert "- ‡ the paper contradicts itself: It cannot exist." in text


def test_files(sheet: Sheet, tmp_path: Path) -> None:
    file = write(sheet, tmp_path / "new" / "folder")
    assert file.name == "table1-made-up.md"
    assert "# Table 1 on Made up: small" in file.read_text()
    content = json.loads(file.with_suffix(".json").read_text())
    assert content["made"]["command"] == "glocalfair reproduce"
    assert content["made"]["wall_seconds"] >= 0
    assert {"glocalfair", "torch", "numpy", "Python"} <= set(content["made"]["versions"])
    assert content["federations"][0]["comparison"]["repeats"]["numbers"] == [0, 1]
    with file.with_suffix(".csv").open() as lines:
        found = list(csv.DictReader(lines))
    assert len(found) == 3 * 2
    assert (found[0]["method"], found[0]["ratio"], found[0]["paper"], found[2]["paper"]) == (
        "fedavg",
        "1.0",
        "0.45",
        "",
    )
    tex = latex(sheet)
    assert tex.isascii()
    assert tex.count("\\begin{table}") == tex.count("\\end{table}") == 2


def test_notes_say_whose_figures_they_are(sheet: Sheet) -> None:
    told = " ".join(notes(sheet))
    assert "The paper has no figures of this table for Made up. Shown are those for CelebA" in told
    assert "over 2 seeds" in told
    assert "would show so much by chance" in told


def test_budgets_change_rounds_and_seeds_only() -> None:
    source, setting = read_source("adult"), read_table("table1").federations("adult")[1]
    assert configure(source, setting, Budget(10)).train.rounds == 30
    quick = configure(source, setting, Budget(1, 3))
    assert (quick.train.rounds, quick.partition.name, quick.partition.clients) == (3, "dirichlet", 4)
