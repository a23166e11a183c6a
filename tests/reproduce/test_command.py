"""``glocalfair reproduce`` from the command line."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from glocalfair import reproduce
from glocalfair.reproduce.figures import figures
from glocalfair.reproduce.spec import Budget, Row, Table

from ..cli.invoke import glocalfair
from .small import SOURCE, table


def test_data_that_is_not_available(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLOCALFAIR_DATA", raising=False)
    done = glocalfair(
        "reproduce", "table1", "--data", "utkface", "--output", tmp_path / "tables", "--runs", tmp_path / "runs"
    )
    assert done.exit_code == 2
    assert "Where are the pictures of 'utkface'?" in done.stderr
    assert done.stderr.count("Error: ") == 1
    assert not (tmp_path / "tables").exists()


def test_a_table_that_does_not_exist() -> None:
    assert glocalfair("reproduce", "table8").exit_code == 2


def test_adult(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = reproduce.read_table

    def tiny(name: str) -> Table:
        rows = (Row("fedavg", "fedavg", paper="fedavg"), Row("glocalfair", "glocalfair", paper="glocalfair"))
        return dataclasses.replace(read(name), rows=rows, budgets={"quick": Budget(1, 1)})

    monkeypatch.setattr(reproduce, "read_table", tiny)
    monkeypatch.chdir(tmp_path)
    arguments = ["table1", "--budget", "quick", "--workers", "1", "--output", "out"]
    done = glocalfair("reproduce", *arguments)
    assert done.exit_code == 0, done.output
    assert "Table 1 on Adult: global group fairness" in done.stdout
    assert "(.838)" in done.stdout
    assert sorted(path.name for path in Path("out").iterdir()) == [f"table1.{e}" for e in ("csv", "json", "md", "tex")]
    text = Path("out/table1.md").read_text()
    assert "`glocalfair reproduce table1 --data adult --budget quick --output out`" in text
    assert "A quick run (1 seed of 1 round)" in text
    again = glocalfair("reproduce", "table2", *arguments[1:], "--quiet")
    assert again.stdout == "out/table2.md\n"
    assert "for 4 runs (4 were there already)" in Path("out/table2.md").read_text()


def test_figures(tmp_path: Path) -> None:
    written = figures(table("figures"), SOURCE, "quick", tmp_path / "runs", tmp_path / "figures", workers=1)
    names = {path.name for path in written}
    assert {"local.csv", "lorenz.csv", "gini.csv", "local-a.svg"} <= names
    assert any(name.startswith("lorenz-") for name in names)
    local = (tmp_path / "figures" / "local.csv").read_text().splitlines()
    assert local[0] == "method,seed,client,eod_a,eod_b,dp_dis"
    assert len(local) == 1 + 3 * 2 * 4
