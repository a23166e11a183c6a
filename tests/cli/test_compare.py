"""``glocalfair compare`` and ``glocalfair tune``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .invoke import SMALL, glocalfair

QUICK = [*SMALL, "--rounds", 2, "--workers", 1]


def test_json_format_and_quiet(tmp_path: Path) -> None:
    arguments = ["compare", *QUICK, "--methods", "fedavg,qffl", "--seeds", 2, "--output", tmp_path / "out"]
    done = glocalfair(*arguments, "--json", "--set", "method.qffl.q=2")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert not done.stderr
    assert [row["label"] for row in told["methods"]] == ["fedavg", "qffl"]
    assert told["methods"][1]["settings"]["q"] == 2
    assert told["output"] == str(tmp_path / "out")
    conflict = glocalfair(*arguments)
    assert conflict.exit_code == 2
    assert "method.q: 2.0, now 0.1" in conflict.stderr
    again = [*arguments, "--set", "method.qffl.q=2"]
    assert glocalfair(*again, "--quiet").stdout.strip() == str(tmp_path / "out")
    for form, text in (("terminal", "Global: test rows"), ("markdown", "| fedavg"), ("latex", "\\toprule")):
        assert text in glocalfair(*again, "--format", form).stdout
    assert glocalfair(*again, "--format", "csv").stdout.startswith("method,view,")


def test_tune_then_compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = glocalfair("tune", *QUICK, "--methods", "gifair", "--seeds", 1, "--budget", 0.5)
    assert done.exit_code == 0, done.output
    assert "gifair" in done.stdout and "tuned.toml" in done.stdout
    chosen = re.search(r"^c = (\S+)$", Path("tuned.toml").read_text(), re.M)
    assert chosen is not None
    compared = glocalfair("compare", *QUICK, "--methods", "gifair", "--seeds", 1, "--tuned", "tuned.toml", "--json")
    row = json.loads(compared.stdout)["methods"][0]
    assert row["settings"]["c"] == float(chosen[1])


def test_an_own_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{i % 7},{'mf'[i % 2]},{'yes' if i % 7 + i % 2 > 3 else 'no'},site{i % 3}" for i in range(400)]
    Path("people.csv").write_text("x,sex,approved,site\n" + "\n".join(rows))
    table = ["--data", "people.csv", "--label", "approved", "--sensitive", "sex", "--client", "site"]
    done = glocalfair(
        "compare", *table, "--methods", "fedavg,fairfed", "--rounds", 2, "--seeds", 1, "--workers", 1, "--quiet"
    )
    assert done.stdout.strip() == "runs/compare-people", done.output
    assert Path("runs/compare-people/fairfed/sex/seed0/result.json").exists()


def test_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from glocalfair.compare import executor

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(executor.worker, "execute", stop)
    done = glocalfair("compare", *QUICK, "--methods", "fedavg", "--seeds", 2, "--output", tmp_path / "out")
    assert done.exit_code == 130
    assert "Interrupted after 0 of 2 runs. The same command goes on where it stopped." in done.stderr
    assert "Traceback" not in done.stderr


MISTAKES = {
    "no experiment": (["compare"], r"Which experiment\? For instance 'glocalfair compare adult'"),
    "unknown experiment": (["compare", "adlut"], r"Did you mean 'adult'\?"),
    "unknown method": (["compare", *QUICK, "--methods", "fedavg,fairfet"], r"Did you mean 'fairfed'\?"),
    "no method": (["compare", *QUICK, "--methods", ","], r"'--methods' must be"),
    "unknown setting": (["compare", *QUICK, "--set", "method.qffl.k=2"], r"Unknown setting of method 'qffl' 'k'"),
    "no method name": (["compare", *QUICK, "--set", "method.q=2"], r"method.NAME.key=value"),
    "bad value": (["compare", *QUICK, "--set", "method.gifair.c=2"], r"'c' must be"),
    "seeds and folds": (["compare", *QUICK, "--seeds", "2", "--folds", "2"], r"either '--seeds' or '--folds'"),
    "no seeds": (["compare", *QUICK, "--seeds", "0"], r"'--seeds' must be"),
    "one fold": (["compare", *QUICK, "--folds", "1"], r"'--folds' must be"),
    "no workers": (["compare", *SMALL, "--workers", "0"], r"'--workers' must be"),
    "unknown baseline": (["compare", *QUICK, "--baseline", "fedprox"], r"Unknown baseline 'fedprox'"),
    "unknown format": (["compare", *QUICK, "--format", "html"], r"'--format'.*'html'"),
    "unused clients": (["compare", "adult", "--clients", "9"], r"'by_group' does not use 'clients'"),
    "missing tuned file": (["compare", *QUICK, "--tuned", "none.toml"], r"Cannot read"),
    "budget": (["tune", *QUICK, "--budget", "2"], r"'--budget' must be"),
    "tune nothing": (["tune", *QUICK, "--methods", "fedavgg"], r"Did you mean 'fedavg'\?"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, message = MISTAKES[mistake]
    done = glocalfair(*arguments)
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("Error: ") and len(done.stderr.strip().splitlines()) == 1
    assert re.search(message, done.stderr), done.stderr
    assert not any(tmp_path.iterdir())
