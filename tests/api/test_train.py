"""The front door: frame → federation → train → result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from torch import nn

import glocalfair
from glocalfair import Callback, Federation, GlocalfairError, Result, TensorBoardCallback, train
from glocalfair.api import FrameWarning

from ..frame.people import people

CLEAN = ["person_id", "name", "born", "country", "letter"]


def federation(frame: Any = None, **options: Any) -> Federation:
    given = {"label": "approved", "sensitive": ["sex"], "client": "hospital", **options}
    return Federation.from_frame(people().drop(CLEAN) if frame is None else frame, **given)


@pytest.fixture(scope="module")
def result() -> Result:
    return train(federation(), rounds=4)


def tanh_net(inputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 5), nn.Tanh(), nn.Linear(5, 1))


def test_import_is_quick_and_light() -> None:
    code = "import sys, glocalfair; dir(glocalfair); print({'torch', 'polars', 'sklearn', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    for name in glocalfair.__all__:
        assert getattr(glocalfair, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        glocalfair.nothing  # noqa: B018


def test_polars_pandas_and_a_file_are_the_same(tmp_path: Path) -> None:
    frame = people().drop(CLEAN)
    frame.write_csv(tmp_path / "people.csv")
    first = federation()
    for other in (pd.DataFrame(frame.to_dict(as_series=False)), tmp_path / "people.csv"):
        np.testing.assert_array_equal(first.x, federation(other).x)


def test_a_federation_says_what_it_is_in_one_line() -> None:
    held = federation()
    assert repr(held) == f"<Federation frame: {len(people()):,} rows, {len(held.clients)} clients, sex>"


def test_what_to_look_at_comes_as_warnings() -> None:
    with pytest.warns(FrameWarning, match="Leak"):
        federation(people(), drop=["person_id", "name", "born", "country"])


def test_partition_and_split() -> None:
    dealt = federation(
        client=None, partition={"name": "dirichlet", "clients": 3}, split={"test": 0.25}, drop=["hospital"]
    )
    assert len(dealt.clients) == 3 and len(dealt.test) == 100
    with pytest.raises(GlocalfairError, match="Did you mean 'clients'"):
        federation(client=None, partition={"name": "iid", "client": 3})
    with pytest.raises(GlocalfairError, match="Did you mean 'missing_label'"):
        federation(mising_label="drop")


def test_a_result(result: Result) -> None:
    assert isinstance(result.model, nn.Module) and not result.model.training
    assert len(result.rounds) == 4
    table = result.to_frame()
    assert isinstance(table, pl.DataFrame)
    row = table.row(by_predicate=(pl.col("scope") == "global") & (pl.col("metric") == "eod"), named=True)
    assert row["value"] == result.metrics["global"]["eod"]["sex"] and row["low"] <= row["value"]
    local = table.row(by_predicate=(pl.col("scope") == "local") & (pl.col("metric") == "accuracy"), named=True)
    assert local["clients"] == 3
    assert "<table>" in result._repr_html_() and "EOD sex" in result._repr_html_()
    assert "Result of glocalfair" in repr(result)


def test_the_model_is_the_one_that_was_measured(result: Result) -> None:
    f = federation()
    with torch.no_grad():
        predicted = (result.model(torch.from_numpy(f.x[f.test])) > 0).numpy()
    assert result.metrics["global"]["accuracy"] == pytest.approx(np.mean(predicted == f.y[f.test]))
    labels = result.predict(people())
    assert set(labels) <= {"yes", "no"}
    np.testing.assert_array_equal(labels[f.test] == "yes", predicted)


def test_save_and_load(result: Result, tmp_path: Path) -> None:
    path = result.save(tmp_path / "run")
    loaded = Result.load(path)
    np.testing.assert_array_equal(loaded.predict_proba(people()), result.predict_proba(people()))
    assert json.dumps(loaded.metrics["global"]) == json.dumps(json.loads((path / "result.json").read_text())["global"])
    assert loaded.to_frame().shape == result.to_frame().shape
    assert loaded.config.train == result.config.train
    with pytest.raises(GlocalfairError, match="already holds a run"):
        result.save(path)
    with pytest.raises(GlocalfairError, match="is not a run directory"):
        Result.load(tmp_path)


def test_report(result: Result, tmp_path: Path) -> None:
    page = result.report(tmp_path / "report.html")
    assert "<html" in page.read_text(encoding="utf-8")


def test_equal_seeds_and_settings_of_every_kind() -> None:
    one = train(federation(), "fedavg", rounds=2, seed=3, lr=0.1, hidden=[4], dtype="float64")
    two = train(federation(), "fedavg", rounds=2, seed=3, lr=0.1, hidden=[4], dtype="float64")
    assert one.metrics["global"] == two.metrics["global"]
    assert one.config.train.lr == 0.1 and next(one.model.parameters()).dtype == torch.float64
    weighted = train(federation(), "glocalfair", rounds=1, gamma=2.0)
    assert weighted.config.method["gamma"] == 2.0
    assert train(federation(), {"name": "fedprox", "mu": 0.5}, rounds=1).config.method["mu"] == 0.5
    with pytest.raises(GlocalfairError, match="Unknown setting 'rate'"):
        train(federation(), rate=3)
    with pytest.raises(GlocalfairError, match="Did you mean 'fedavg'"):
        train(federation(), "fedavgg")


def test_models_of_ones_own(tmp_path: Path) -> None:
    made = train(federation(), "fedavg", tanh_net, rounds=2)
    assert isinstance(made.model, nn.Sequential)
    path = made.save(tmp_path / "own")
    with pytest.raises(GlocalfairError, match="allow the import"):
        Result.load(path)
    for loaded in (Result.load(path, tanh_net), Result.load(path, allow_import=True)):
        np.testing.assert_array_equal(loaded.predict_proba(people()), made.predict_proba(people()))
    instance = tanh_net(federation().x.shape[1])
    before = [p.clone() for p in instance.parameters()]
    train(federation(), "fedavg", instance, rounds=1)
    assert all(torch.equal(a, b) for a, b in zip(before, instance.parameters(), strict=True))
    assert train(federation(), "fedavg", "linear", rounds=1).config.model.name == "linear"


class Watcher(Callback):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_start(self, config: Any) -> None:
        self.seen.append(f"start {config['train']['rounds']}")

    def on_round(self, record: Any) -> None:
        self.seen.append(f"round {record['round']}")

    def on_end(self, metrics: Any) -> None:
        self.seen.append(f"end {metrics['rounds']}")

    def close(self) -> None:
        self.seen.append("close")


def test_callbacks() -> None:
    watcher, rounds = Watcher(), []
    train(federation(), "fedavg", rounds=2, callbacks=[watcher, lambda record: rounds.append(record["round"])])
    assert watcher.seen == ["start 2", "round 1", "round 2", "end 2", "close"]
    assert rounds == [1, 2]
    failing = Watcher()

    def fail(record: Any) -> None:
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        train(federation(), "fedavg", rounds=2, callbacks=[failing, fail])
    assert failing.seen[-1] == "close" and "end 2" not in failing.seen


def test_tensorboard(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(federation(), "fedavg", rounds=3, callbacks=[TensorBoardCallback(tmp_path / "logs")])
    events = EventAccumulator(str(tmp_path / "logs"))
    events.Reload()
    assert len(events.Scalars("validation/accuracy")) == 3
    assert "global/eod/sex" in events.Tags()["scalars"]


class FakeMLflow:
    """Records the calls that MLflow's fluent interface would get."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **named: self.calls.append((name, args or named))


def test_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeMLflow()
    monkeypatch.setitem(sys.modules, "mlflow", fake)  # type: ignore[arg-type]
    train(federation(), "fedavg", rounds=2, callbacks=[glocalfair.MLflowCallback(experiment="mine")])
    names = [name for name, _ in fake.calls]
    expected = ["set_experiment", "start_run", "log_params", "log_metrics", "log_metrics", "log_metrics", "end_run"]
    assert names == expected
    assert fake.calls[-1] == ("end_run", {"status": "FINISHED"})


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("mlflow", "tensorboard"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(GlocalfairError, match=r"pip install 'glocalfair\[mlflow\]'"):
        glocalfair.MLflowCallback()
    with pytest.raises(GlocalfairError, match=r"pip install 'glocalfair\[tensorboard\]'"):
        TensorBoardCallback()
