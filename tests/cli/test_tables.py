"""The terminal tables, from hand-made results and records."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from glocalfair.report.progress import Progress
from glocalfair.report.result import final_report
from glocalfair.report.rounds import round_tables
from glocalfair.report.text import constraints

from .invoke import glocalfair, trained


def text(*parts: RenderableType, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, markup=False)
    for part in parts:
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def record(clients: int) -> dict[str, Any]:
    names = [f"site-{i:02d}" for i in range(clients)]
    return {
        "round": 7,
        "server": {
            "gini": {name: 0.4 + i / 100 for i, name in enumerate(names)},
            "cluster": {name: i % 2 for i, name in enumerate(names)},
            "coefficients": dict.fromkeys(names, 1 / clients),
        },
        "clients": {
            name: {"constraints": {"name": ["fpr(sex=F)"], "tau": [0.02], "violation": [i / 100], "multiplier": [0.5]}}
            for i, name in enumerate(names)
        },
    }


def test_constraints_come_worst_first_and_say_how_many_are_left_out() -> None:
    shown = text(*round_tables(record(25)))
    lines = [line.split() for line in shown.splitlines()]
    found = [line for line in lines if "fpr(sex=F)" in line]
    assert found[0] == ["site-24", "fpr(sex=F)", ".020", ".240", ".500"]
    assert len(found) == 20
    assert "… and 5 more constraints" in shown
    assert "… and 5 more clients" in shown


def test_a_log_of_constraints_one_by_one_is_read_as_well() -> None:
    by_column = record(3)
    one_by_one = by_column | {
        "clients": {name: {"constraints": constraints(told)} for name, told in by_column["clients"].items()}
    }
    assert text(*round_tables(one_by_one)) == text(*round_tables(by_column))


def test_an_undefined_violation_comes_last() -> None:
    made = record(3)
    made["clients"]["site-02"]["constraints"]["violation"] = [None]
    lines = [line.split() for line in text(*round_tables(made)).splitlines() if "fpr(sex=F)" in line]
    assert [line[0] for line in lines] == ["site-01", "site-00", "site-02"]
    assert lines[-1][3] == "–"


def test_the_server_table_has_gini_cluster_and_weight() -> None:
    shown = text(*round_tables(record(2)))
    assert ["site-01", ".410", "1", ".500"] in [line.split() for line in shown.splitlines()]


@pytest.mark.parametrize("empty", [{}, {"round": 1, "server": {"coefficients": {"a": 1.0}}, "clients": {}}])
def test_methods_that_log_nothing_get_no_table(empty: dict[str, Any]) -> None:
    assert list(round_tables(empty)) == []


def test_a_stored_result_reads_like_a_fresh_one(tmp_path: Path) -> None:
    trained(tmp_path / "run", "--partition", "by_group")
    stored = json.loads((tmp_path / "run" / "result.json").read_text())
    assert "0 of 4 clients" in text(*final_report(stored, {}))
    assert text(*final_report(stored, {})) in glocalfair("run", "--resume", tmp_path / "run", width=80).stdout


def test_names_with_brackets_are_shown_as_they_are() -> None:
    made = record(1)
    made["clients"] = {"[bold]x[/bold]": made["clients"]["site-00"]}
    assert "[bold]x[/bold]" in text(*round_tables(made))


def test_a_log_file_gets_about_ten_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(95) as progress:
        for number in range(1, 96):
            progress.update({"round": number, "loss": 0.5})
    assert len(capsys.readouterr().err.splitlines()) == 10
