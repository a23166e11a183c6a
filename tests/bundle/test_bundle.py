"""The bundle: predicts as the model in memory does, runs no code, and is refused when damaged."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from glocalfair import Bundle, Federation, GlocalfairError, Result, train
from glocalfair.runs import read_safetensors

from ..cli.invoke import SMALL, glocalfair
from ..frame.people import people

CLEAN = ["person_id", "name", "born", "country", "letter"]


@pytest.fixture(scope="module")
def result() -> Result:
    frame = people().drop(CLEAN)
    return train(
        Federation.from_frame(frame, label="approved", sensitive=["sex", "age:<40"], client="hospital"), rounds=3
    )


@pytest.fixture
def path(result: Result, tmp_path: Path) -> Path:
    assert result.bundle is not None
    result.bundle.save(tmp_path / "model.glocalfair")
    return tmp_path / "model.glocalfair"


def test_round_trip(result: Result, path: Path) -> None:
    loaded = Bundle.load(path)
    other = people(300, seed=5)
    np.testing.assert_array_equal(loaded.predict(other).probability, result.predict_proba(other))
    assert result.bundle is not None and loaded.schema == result.bundle.schema
    shuffled = other.select(sorted(other.columns))
    np.testing.assert_array_equal(loaded.predict(shuffled).probability, result.predict_proba(other))
    assert loaded.predict(other[:0]).probability.shape == (0,)


def test_csv_and_parquet_predict_alike(path: Path) -> None:
    other = people(50, seed=2)
    for name in ("new.csv", "new.parquet"):
        file = path.with_name(name)
        other.write_csv(file) if name.endswith("csv") else other.write_parquet(file)
        done = glocalfair("predict", path, file, "-o", path.with_name("out.csv"))
        assert done.exit_code == 0, done.output
        out = pl.read_csv(path.with_name("out.csv"))
        expected = Bundle.load(path).predict(other).probability
        np.testing.assert_allclose(out["probability"], expected, atol=1e-6)
        assert set(out["prediction"]) <= {"yes", "no"} and out.columns[:-2] == other.columns


def test_what_does_not_fit_is_told(path: Path) -> None:
    other = people(30).with_columns(job=pl.lit("pilot"), income=pl.lit("much"))
    other.write_csv(path.with_name("new.csv"))
    done = glocalfair("predict", path, path.with_name("new.csv"))
    assert done.exit_code == 0
    assert "Column 'job': 30 values that the model has never seen." in done.stderr
    assert "Column 'income': 30 values that are no finite numbers" in done.stderr
    assert len(done.stdout.splitlines()) == 31
    other.drop("age", "sex").write_csv(path.with_name("short.csv"))
    refused = glocalfair("predict", path, path.with_name("short.csv"))
    assert refused.exit_code == 2 and "lacks 2 of the 5 columns that the model reads: 'age', 'sex'" in refused.stderr


def test_a_run_directory_serves_as_a_bundle(tmp_path: Path) -> None:
    from glocalfair.data import load

    run = tmp_path / "run"
    assert glocalfair("run", *SMALL, "--rounds", 2, "--output", run, "--quiet").exit_code == 0
    data = load("synthetic", rows=800, clients=4, features=3)
    columns: dict[str, Any] = dict(zip(data.numeric_names, data.numeric.T, strict=True))
    for j, (name, values) in enumerate(data.categories):
        columns[name] = [values[code] for code in data.categorical[:, j]]
    probability = Bundle.load(run).predict(columns).probability
    assert probability.shape == (800,) and ((probability > 0) & (probability < 1)).all()


CODE = (
    "import pathlib\npathlib.Path('executed').touch()\nimport torch\ndef make(n):\n    return torch.nn.Linear(n, 1)\n"
)


def test_a_bundle_runs_no_code(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (path.parent / "hostile_model.py").write_text(CODE)
    people(20).write_csv("new.csv")
    _, header = read_safetensors(path)
    header["model"]["name"] = "hostile_model:make"
    inputs = len(Bundle.load(path).encoder.names)
    tensors = {"weight": np.zeros((1, inputs), np.float32), "bias": np.zeros(1, np.float32)}
    path.write_bytes(save(tensors, {"glocalfair": json.dumps(header)}))
    refused = glocalfair("predict", path, "new.csv")
    assert refused.exit_code == 2 and "--allow-import" in refused.stderr
    assert not Path("executed").exists()
    assert glocalfair("predict", path, "new.csv", "--allow-import").exit_code == 0
    assert Path("executed").exists()


def damaged(path: Path, change: Any) -> Path:
    tensors, header = read_safetensors(path)
    change(tensors, header)
    path.write_bytes(save(tensors, {"glocalfair": json.dumps(header)}))
    return path


DAMAGE: dict[str, Any] = {
    "no bundle": (lambda t, h: h.pop("bundle"), "is no model bundle"),
    "no encoder": (lambda t, h: h.pop("encoder"), "is damaged: KeyError"),
    "no schema": (lambda t, h: h.update(schema=3), "This is no schema"),
    "short mean": (lambda t, h: h["encoder"]["mean"].pop(), "parts of different lengths"),
    "other columns": (lambda t, h: h["encoder"]["categories"].pop(), "do not belong together"),
    "no tensors": (lambda t, h: t.pop("layers.0.bias"), "weights do not fit"),
    "wrong shape": (lambda t, h: t.update({"layers.0.bias": np.zeros(3)}), "weights do not fit"),
    "huge layers": (lambda t, h: h["model"].update(hidden=[10**9, 10**9]), "weights do not fit"),
    "negative layers": (lambda t, h: h["model"].update(hidden=[-1]), "impossible layers"),
    "endless layers": (lambda t, h: h["model"].update(hidden=[1] * 10**5), "impossible layers"),
    "no number": (lambda t, h: h["encoder"]["mean"].__setitem__(0, float("nan")), "is no finite number"),
    "unknown model": (lambda t, h: h["model"].update(name="resnet"), "Unknown model 'resnet'"),
    "no hidden": (lambda t, h: h["model"].update(hidden="abc"), "is damaged: ValueError"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_bundles(path: Path, damage: str) -> None:
    change, expected = DAMAGE[damage]
    with pytest.raises(GlocalfairError, match=expected):
        Bundle.load(damaged(path, change)).predict(people(5))


def test_strange_headers(path: Path) -> None:
    for header in ("[" * 100_000, "{", "3", '"x"'):
        path.write_bytes(save({"a": np.zeros(1)}, {"glocalfair": header}))
        with pytest.raises(GlocalfairError, match=r"Cannot read|was not written by glocalfair"):
            Bundle.load(path)
    from safetensors.torch import save as save_torch

    path.write_bytes(save_torch({"a": torch.zeros(2, dtype=torch.float8_e4m3fn)}, {"glocalfair": "{}"}))
    with pytest.raises(GlocalfairError):
        Bundle.load(path)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_random_damage_never_crashes(data: st.DataObject, result: Result, tmp_path_factory: Any) -> None:
    assert result.bundle is not None
    path = tmp_path_factory.mktemp("fuzz") / "model.glocalfair"
    result.bundle.save(path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, min(len(content) - 1, 2500)))
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content[: data.draw(st.sampled_from([len(content), 100, 9]))]))
    try:
        probability = Bundle.load(path).predict(people(5)).probability
    except GlocalfairError as error:
        assert "\n" not in str(error)
    else:
        assert probability.shape == (5,)


MISTAKES = {
    "no bundle": (["predict", "none.glocalfair", "new.csv"], "There is no model bundle 'none.glocalfair'"),
    "not a bundle": (["predict", "new.csv", "new.csv"], "Cannot read 'new.csv'"),
    "no data": (["predict", "model.glocalfair", "none.csv"], "no such file"),
    "output": (["predict", "model.glocalfair", "new.csv", "-o", "out.xlsx"], "'--output' must be a .csv or .parquet"),
    "threshold": (["predict", "model.glocalfair", "new.csv", "--threshold", "3"], "'--threshold' must be between"),
    "no run": (["card", "nowhere"], "'nowhere' is not a run directory"),
    "export": (["export", "none.glocalfair", "--onnx", "m.onnx"], "There is no model bundle"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_line(path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    monkeypatch.chdir(path.parent)
    people(20).write_csv("new.csv")
    arguments, expected = MISTAKES[mistake]
    done = glocalfair(*arguments)
    assert done.exit_code == 2
    assert expected in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_a_column_in_the_way(path: Path) -> None:
    people(20).with_columns(prediction=1).write_csv(path.with_name("new.csv"))
    assert "has a column 'prediction' already" in glocalfair("predict", path, path.with_name("new.csv")).stderr
