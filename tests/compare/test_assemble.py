"""From runs to figures: by hand, from the files, and as properties."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glocalfair.compare import Cell, Comparison, Figure, Row
from glocalfair.compare.assemble import against, collapsed, mark_best, pool
from glocalfair.compare.comparison import Run
from glocalfair.compare.notes import notes
from glocalfair.compare.study import load
from glocalfair.data.partition import PartitionSpec
from glocalfair.metrics import Tables, summarise
from glocalfair.types import Attribute

from .small import compared, result, small

NAN = math.nan
SEX = Attribute("sex", ("F", "M"))
ACCURACY, EOD = Figure("global", "accuracy", better="higher"), Figure("global", "eod", "sex")
EXCESS = Figure("excess", "eod", "sex")


def row(label: str, dead: bool = False, **cells: tuple[float, ...]) -> Row:
    keys = {"accuracy": ACCURACY.key, "eod": EOD.key, "excess": EXCESS.key}
    made = {keys[name]: Cell(v, float(np.nanmean(v)), NAN, NAN, len(v), len(v)) for name, v in cells.items()}
    runs = (Run("x", None, 0, 1.0, dead),)
    return Row(label, label, {}, "none", False, 1, (), runs, made)


def counted(*cells: int) -> dict[str, Any]:
    tables = Tables((SEX,), np.array(cells).reshape(1, 2, 2, 2))
    return {**summarise(tables, tables, ["k"], draws=50), "counts": {"global": tables.to_dict()}}


def test_differences_by_hand() -> None:
    base = row("base", accuracy=(0.8, 0.8, 0.8), eod=(0.2, 0.4, NAN))
    other = against(row("other", accuracy=(0.81, 0.82, 0.83), eod=(0.1, 0.3, 0.1)), base)
    found = other.cells[ACCURACY.key].difference
    assert found is not None
    # Mean .02, s .01, t(2) = 4.3027: ± .02484.
    assert (found.mean, found.half, found.pairs) == pytest.approx((0.02, 4.302653 * 0.01 / math.sqrt(3), 3))
    assert not found.clear
    gap = other.cells[EOD.key].difference
    assert gap is not None
    assert (gap.mean, gap.pairs) == (pytest.approx(-0.1), 2)
    assert gap.clear  # no spread at all


def test_best_is_of_those_that_have_not_collapsed() -> None:
    rows = [
        row("dead", dead=True, accuracy=(0.9,), eod=(0.0,), excess=(-0.1,)),
        row("one", accuracy=(0.8004,), eod=(0.2,), excess=(-0.02,)),
        row("two", accuracy=(0.7996,), eod=(0.1,), excess=(-0.01,)),
        row("three", accuracy=(0.7,), eod=(0.3,), excess=(0.01,)),
    ]
    marked = mark_best(rows, [ACCURACY, EOD, EXCESS])

    def best(figure: Figure) -> list[str]:
        return [each.label for each in marked if each.cells[figure.key].best]

    assert best(ACCURACY) == ["one", "two"]  # both .800 in the table
    assert best(EOD) == ["two"]
    assert best(EXCESS) == ["one", "two"]  # at or below the floor all are alike


def test_undefined_is_never_best() -> None:
    marked = mark_best([row("one", eod=(0.2,)), row("two", eod=(0.1,))], [EOD])
    cells = {EOD.key: Cell((NAN,), NAN, NAN, NAN, 0, 1)}
    alone = mark_best([Row("one", "one", {}, "none", False, 1, (), (), cells)], [EOD])
    assert [each.cells[EOD.key].best for each in (*marked, *alone)] == [False, True, False]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ((40, 0, 10, 0, 40, 0, 10, 0), True),  # nobody
        ((0, 40, 0, 10, 0, 40, 0, 10), True),  # everybody
        ((40, 0, 9, 1, 40, 0, 10, 0), True),  # one of 20 positives
        ((40, 0, 8, 2, 40, 0, 10, 0), False),
        ((30, 10, 2, 8, 30, 10, 2, 8), False),
    ],
)
def test_collapse(cells: tuple[int, ...], expected: bool) -> None:
    assert collapsed(counted(*cells)) is expected


def test_pooled_counts_are_the_sum() -> None:
    one, two = counted(8, 2, 1, 3, 9, 1, 2, 2), counted(6, 4, 2, 2, 9, 1, 1, 3)
    found = pool([one, two], seed=0)
    # F: TPR 5/8, FPR 6/20; M: TPR 5/8, FPR 2/20.
    assert found["eod"]["sex"] == pytest.approx(0.2)
    assert found["examples"] == 56
    assert found["accuracy"] == pytest.approx((8 + 3 + 9 + 2 + 6 + 2 + 9 + 3) / 56)


def test_folds_test_each_row_once(tmp_path: Path) -> None:
    comparison = compared(tmp_path, "fedavg", "fairfed", folds=3)
    assert comparison.kind == "fold"
    for attribute in ("a", "b"):
        tables = [
            Tables.from_dict(result(tmp_path / "fairfed" / attribute / f"fold{fold}")["counts"]["global"])
            for fold in range(3)
        ]
        total = tables[0] + tables[1] + tables[2]
        assert total.counts.sum() == 600
        expected = summarise(total, total, ["k"], draws=10)["global"]["eod"][attribute]
        cell = comparison.row("fairfed").cells[f"global.eod.{attribute}"]
        assert cell.value == cell.pooled == pytest.approx(expected)
        assert cell.mean == pytest.approx(np.mean(cell.values))
    assert math.isnan(comparison.row("fairfed").cells["local.dis"].pooled)
    assert "3 test folds added up" in notes(comparison)[0]


def test_each_eod_is_from_the_run_that_protects_it(finished: tuple[Comparison, Path]) -> None:
    comparison, root = finished
    runs = {
        (attribute, seed): result(root / "fairfed" / attribute / f"seed{seed}")
        for attribute in ("a", "b")
        for seed in (0, 1)
    }
    cells = comparison.row("fairfed").cells
    for attribute in ("a", "b"):
        expected = [runs[attribute, seed]["global"]["eod"][attribute] for seed in (0, 1)]
        assert cells[f"global.eod.{attribute}"].values == pytest.approx(expected)
        local = [runs[attribute, seed]["local"]["eod"][attribute]["mean"] for seed in (0, 1)]
        assert cells[f"local.eod.{attribute}"].values == pytest.approx(local)
    for key, path in (("global.accuracy", "accuracy"), ("global.dp_dis", "dp_dis")):
        means = [np.mean([runs[attribute, seed]["global"][path] for attribute in ("a", "b")]) for seed in (0, 1)]
        assert cells[key].values == pytest.approx(means)
        assert cells[key].std == pytest.approx(np.std(means, ddof=1))
    assert any("fairfed protects one attribute at a time" in note for note in notes(comparison))


def test_the_intersection_when_asked(tmp_path: Path) -> None:
    comparison = compared(tmp_path, "fairfed", seeds=1, protection="intersection")
    assert (tmp_path / "fairfed" / "intersection" / "seed0" / "result.json").exists()
    told = result(tmp_path / "fairfed" / "intersection" / "seed0")["global"]["eod"]
    cells = comparison.row("fairfed").cells
    assert [cells[f"global.eod.{name}"].mean for name in ("a", "b", "a×b")] == [told["a"], told["b"], told["a×b"]]
    assert not comparison.row("fairfed").split


def test_a_constant_classifier_is_flagged(tmp_path: Path) -> None:
    comparison = compared(tmp_path, "fedavg", config=small(positive_rate=0.02))
    found = comparison.row("fedavg")
    assert found.collapsed == 2
    assert not any(cell.best for cell in found.cells.values())
    assert any(note.startswith("†: collapsed (fedavg in 2 of 2 runs)") for note in notes(comparison))


def test_undefined_has_a_count(tmp_path: Path) -> None:
    config = replace(small(), partition=PartitionSpec(name="by_group"))
    cell = compared(tmp_path, "fedavg", config=config).row("fedavg").cells["local.eod.a"]
    assert math.isnan(cell.value)
    assert (cell.defined, cell.possible) == (0, 8)


def test_json_is_complete_and_reads_back(finished: tuple[Comparison, Path]) -> None:
    comparison, root = finished
    told = json.loads((root / "comparison.json").read_text())
    assert told["schema"] == 1
    assert load(root).to_dict() == comparison.to_dict()
    assert {run["path"] for row in told["methods"] for run in row["runs"]} == {
        str(path.parent.relative_to(root)) for path in root.rglob("result.json")
    }
    discloses = {row["label"]: row["discloses"] for row in told["methods"]}
    assert discloses["fedavg"] == [] and discloses["qffl"] == ["loss"] and "group counts" in discloses["fairfed"]


def test_the_baseline_has_no_difference(finished: tuple[Comparison, Path]) -> None:
    comparison, _ = finished
    assert comparison.baseline == "fedavg"
    assert all(cell.difference is None for cell in comparison.row("fedavg").cells.values())
    base, other = (comparison.row(name).cells["global.eod.a"] for name in ("fedavg", "glocalfair"))
    assert other.difference is not None
    assert other.difference.mean == pytest.approx(np.mean(other.values) - np.mean(base.values))
