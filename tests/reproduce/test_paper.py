"""The TOML files hold the paper's tables: nothing missing, nothing mistyped, every contradiction marked."""

from __future__ import annotations

import math

import pytest

from glocalfair.cli import reproduce as command
from glocalfair.errors import GlocalfairError
from glocalfair.reproduce import DATA, TABLES, read_source, read_table
from glocalfair.reproduce.spec import BUDGETS, FIGURES

CELLS = (
    ("table1", "celeba", "main", "fedavg", (0.45, 0.50, 0.39, 0.830)),
    ("table1", "celeba", "main", "glocalfair", (0.09, 0.10, 0.10, 0.792)),
    ("table1", "adult", "main", "fedavg", (0.30, 0.32, 0.35, 0.838)),
    ("table1", "adult", "main", "fedfb", (0.10, 0.13, 0.12, 0.790)),
    ("table1", "utkface", "main", "qffl", (0.37, 0.41, 0.39, 0.860)),
    ("table2", "adult", "main", "glocalfair", (0.11, 0.05, 0.20, 0.15, 0.173)),
    ("table2", "celeba", "main", "fedavg", (0.43, 0.25, 0.39, 0.27, 0.135)),
    ("table2", "utkface", "main", "gifair", (0.27, 0.18, 0.31, 0.29, 0.101)),
    ("table3", "celeba", "0.1", "fairfed", (0.25, 0.21, 0.767)),
    ("table3", "utkface", "100", "glocalfair", (0.08, 0.12, 0.866)),
    ("table4", "celeba", "main", "clustering", (0.13, 0.12, 0.779, 0.25, 0.21, 0.27, 0.23, 0.089)),
    ("table5", "celeba", "main", "0.4", (0.23, 0.25, 0.15, 0.806)),
    ("table6", "celeba", "main", "0.08/0.08", (0.55, 0.45, 0.55, 0.673)),
    ("table7", "celeba", "main", "-/0.06", (0.786, 0.87, 0.90)),
)
SIZES = {"table1": 18, "table2": 18, "table3": 36, "table4": 4, "table5": 5, "table6": 9, "table7": 5}


@pytest.mark.parametrize(("name", "data", "setting", "row", "values"), CELLS)
def test_figures_are_the_papers(name: str, data: str, setting: str, row: str, values: tuple[float, ...]) -> None:
    assert read_table(name).paper[data][setting][row] == values


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_complete(name: str) -> None:
    table = read_table(name)
    printed = [row for of in table.paper.values() for rows in of.values() for row in rows.values()]
    assert len(printed) == SIZES[name]
    assert {len(row) for row in printed} == {len(table.columns)}
    assert all(0 < value < 1 for row in printed for value in row if not math.isnan(value))
    assert set(table.budgets) == set(BUDGETS)
    for data in DATA:
        for setting in table.federations(data):
            rows = set(table.paper[table.source(data)][setting.paper])
            assert {row.paper for row in table.rows} - {""} == rows
    methods = {row.method for row in table.rows}
    assert {"fedavg", "glocalfair", "glocalfair-paper"} <= methods


@pytest.mark.parametrize("name", TABLES)
def test_doubts_are_about_cells_that_exist(name: str) -> None:
    table = read_table(name)
    for doubt in table.doubts:
        rows = table.paper[doubt.data][doubt.setting]
        for row, column in (cell.rsplit(":", 1) for cell in doubt.cells):
            assert row == "*" or row in rows, row
            assert column in {each.key for each in table.columns}, column


@pytest.mark.parametrize("data", ["celeba", "utkface"])
def test_where_tables_1_and_3_differ_both_are_marked(data: str) -> None:
    one, three = read_table("table1"), read_table("table3")
    differing = 0
    for row, values in three.paper[data]["10"].items():
        for column, value in zip(three.columns, values, strict=True):
            if one.printed(data, "main", row, column) != value:
                differing += 1
                assert one.doubted(data, "main", row, column), (row, column)
                assert three.doubted(data, "10", row, column), (row, column)
    assert differing == {"celeba": 8, "utkface": 2}[data]


def test_the_command_knows_the_same_names() -> None:
    assert (*TABLES, FIGURES, "all") == command.WHAT
    assert set(DATA) == set(command.DATA)


def test_names_that_do_not_exist() -> None:
    with pytest.raises(GlocalfairError, match="Did you mean 'table1'"):
        read_table("tabel1")
    with pytest.raises(GlocalfairError, match="Known: adult"):
        read_source("mnist")


def test_the_papers_settings() -> None:
    assert read_source("utkface").methods["glocalfair-paper"] == {"tau_fnr": 0.06, "tau_fpr": 0.06}
    assert read_source("celeba").config["train"]["rounds"] == 150
    adult = read_source("adult").config
    assert (adult["train"]["rounds"], adult["train"]["participation"]) == (30, 0.75)
    alphas = [setting.partition["alpha"] for setting in read_table("table3").federations("adult")]
    assert alphas == [0.1, 10, 100]
    variants = [row for row in read_table("table6").rows if row.variant == "glocalfair-paper, limits"]
    assert variants[0].settings == {"mode": "absolute", "tau_fpr": 0.08, "tau_fnr": 0.1}
    assert len(variants) == 8
