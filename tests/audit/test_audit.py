"""An audit of any model's predictions: figures as fairlearn has them, the worst named, mistakes in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from fairlearn.metrics import MetricFrame, demographic_parity_difference, equalized_odds_difference
from sklearn.metrics import accuracy_score, recall_score

from glocalfair.audit import audit
from glocalfair.errors import GlocalfairError

from ..cli.invoke import glocalfair
from ..frame.people import people


def predictions(rows: int = 400) -> pl.DataFrame:
    frame = people(rows)
    noise = np.random.default_rng(7).normal(0, 0.15, rows)
    score = np.clip((frame["income"].fill_null(45).to_numpy() - 20) / 50 + noise, 0, 1).round(4)
    return frame.with_columns(score=score, said=pl.Series(np.where(score >= 0.5, "yes", "no")))


def report(frame: Any = None, **options: Any) -> Any:
    given = {"label": "approved", "prediction": "score", "sensitive": ["sex", "race"], "client": "hospital", **options}
    return audit(predictions() if frame is None else frame, **given)


def test_figures_agree_with_fairlearn() -> None:
    frame = predictions()
    y, said = (frame["approved"] == "yes").to_numpy(), (frame["score"] >= 0.5).to_numpy()
    sex = frame["sex"].to_numpy().astype(str)
    found = report()
    overall = found.result["global"]
    assert overall["eod"]["sex"] == pytest.approx(equalized_odds_difference(y, said, sensitive_features=sex))
    assert overall["dpd"]["sex"] == pytest.approx(demographic_parity_difference(y, said, sensitive_features=sex))
    by = MetricFrame(metrics={"a": accuracy_score, "r": recall_score}, y_true=y, y_pred=said, sensitive_features=sex)
    for row in found.groups["sex"]:
        assert row["accuracy"] == pytest.approx(by.by_group["a"][row["group"]])
        assert row["tpr"] == pytest.approx(by.by_group["r"][row["group"]])
    for row in found.clients:
        here = frame["hospital"].to_numpy().astype(str) == row["client"]
        expected = equalized_odds_difference(y[here], said[here], sensitive_features=sex[here])
        assert row["eod"]["sex"] == pytest.approx(expected)
        low, high = row["interval"]["sex"]
        assert 0 <= low <= high <= 1


def test_hard_predictions_and_scores_agree() -> None:
    scored, hard = report(), report(prediction="said")
    assert scored.result == hard.result
    assert scored.threshold == 0.5 and hard.threshold is None
    assert hard.sweep == [] and len(scored.sweep) == 19
    half = next(row for row in scored.sweep if row["threshold"] == 0.5)
    assert half["eod"] == scored.result["global"]["eod"]
    numeric = predictions().with_columns(said=(pl.col("said") == "yes").cast(pl.Float64))
    assert report(numeric, prediction="said").result == hard.result


def test_the_worst_is_named() -> None:
    found = report()
    worst = found.worst["sex"]
    assert worst["pair"] == found.result["global"]["worst_pair"]["sex"]
    widest = max(found.clients, key=lambda row: row["eod"]["sex"])
    assert worst["client"]["client"] == widest["client"]
    assert any("lower for Female than for Male" in line for line in found.sentences())


def test_logits_need_a_threshold() -> None:
    frame = predictions().with_columns(score=pl.col("score") * 8 - 4)
    with pytest.raises(GlocalfairError, match=r"run from -4 to 4. Say .* --threshold 0"):
        report(frame)
    assert report(frame, threshold=0).result == report().result


def test_missing_rows_are_told() -> None:
    frame = predictions().with_columns(score=pl.when(pl.int_range(pl.len()) > 1).then("score"))
    assert report(frame).warnings == (
        "The prediction column 'score' is missing in 2 of 400 rows (rows 1 and 2): left out.",
    )


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "prediction": ({"prediction": "scor"}, "Unknown prediction column 'scor'. Did you mean 'score'?"),
    "label": ({"label": "aproved"}, "Did you mean 'approved'?"),
    "client": ({"client": "hospitl"}, "Did you mean 'hospital'?"),
    "sensitive": ({"sensitive": ["sexx"]}, "Did you mean 'sex'?"),
    "no groups": ({"sensitive": []}, "Which columns are sensitive?"),
    "words": ({"prediction": "job"}, "must be a score, or 'no' and 'yes' as in the label. Got 'clerk'"),
    "classes": ({"label": "race"}, "Binary classification only for now"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake: str) -> None:
    options, expected = MISTAKES[mistake]
    with pytest.raises(GlocalfairError, match=re.escape(expected)):
        report(**options)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    predictions().write_csv(tmp_path / "predictions.csv")
    return tmp_path / "predictions.csv"


FLAGS = ["--label", "approved", "--prediction", "score", "--sensitive", "sex", "race", "--client", "hospital"]


def test_the_command(table: Path) -> None:
    page = table.with_name("page.html")
    done = glocalfair("audit", table, *FLAGS, "--html", page)
    assert done.exit_code == 0, done.output
    for words in ("Global: all rows", "Local: 3 clients", "Groups of race", "Thresholds", "What is worst", "south"):
        assert words in done.stdout
    text = page.read_text()
    assert "Over everybody" in text and "Thresholds" in text and "http" not in text.replace("http-equiv", "")


def test_json(table: Path) -> None:
    done = glocalfair("audit", table, *FLAGS, "--threshold", "0.3", "--json")
    found = json.loads(done.stdout)
    assert found["threshold"] == 0.3
    assert set(found) >= {"global", "local", "groups", "clients", "worst", "sweep", "positive", "warnings"}


def test_names_from_a_table_are_harmless_in_a_page(table: Path) -> None:
    nasty = predictions().with_columns(sex=pl.col("sex").replace("Female", "<script>alert(1)</script>"))
    nasty.write_csv(table)
    page = table.with_name("page.html")
    assert glocalfair("audit", table, *FLAGS, "--html", page).exit_code == 0
    assert "<script" not in page.read_text()


def test_a_mistake_on_the_command_line(table: Path) -> None:
    done = glocalfair("audit", table, "--label", "approved", "--prediction", "scor", "--sensitive", "sex")
    assert done.exit_code == 2 and len(done.stderr.strip().splitlines()) == 1
    assert glocalfair("audit", table.with_name("no.csv"), *FLAGS).stderr.endswith("no such file.\n")


def test_small_groups_are_told() -> None:
    frame = predictions().with_columns(race=pl.when(pl.int_range(pl.len()) < 3).then(pl.lit("Z")).otherwise("race"))
    assert any("Few rows for 'race'" in line and "Z (3)" in line for line in report(frame).warnings)
