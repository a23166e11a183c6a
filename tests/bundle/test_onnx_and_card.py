"""ONNX gives the same probabilities from the raw columns; the model card says what was trained and reached."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import polars as pl
import pytest

from glocalfair import Bundle, Federation, GlocalfairError, train
from glocalfair.api import FrameWarning
from glocalfair.data.frame.values import MISSING
from glocalfair.onnx_export import export

from ..cli.invoke import SMALL, glocalfair
from ..frame.people import people
from .test_bundle import CLEAN


def raw_inputs(bundle: Bundle, frame: pl.DataFrame) -> dict[str, Any]:
    feed: dict[str, Any] = {}
    for name in bundle.schema.numeric:
        feed[name] = frame[name].cast(pl.Float32).fill_null(float("nan")).to_numpy()[:, None]
    for name, _ in bundle.schema.categorical:
        feed[name] = np.array(frame[name].cast(pl.String).fill_null(MISSING).to_list(), dtype=object)[:, None]
    return feed


@pytest.mark.parametrize("settings", [{}, {"hidden": [7]}, {"model": "linear"}, {"dtype": "float64"}])
def test_onnx_agrees(tmp_path: Path, settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    frame = people().drop(CLEAN).with_columns(town=pl.Series(np.minimum(rng.geometric(0.2, 400), 9)).cast(str) + "t")
    with pytest.warns(FrameWarning, match="most frequent are kept"):
        federation = Federation.from_frame(
            frame, label="approved", sensitive="sex", client="hospital", max_categories=5
        )
    bundle = train(federation, "fedavg", rounds=2, **settings).bundle
    assert bundle is not None
    export(bundle, tmp_path / "model.onnx")
    new = frame.with_columns(job=pl.when(pl.int_range(pl.len()) % 7 == 0).then(pl.lit("pilot")).otherwise("job"))
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    (probability,) = session.run(["probability"], raw_inputs(bundle, new))
    np.testing.assert_allclose(probability[:, 0], bundle.predict(new).probability, atol=2e-6)
    assert "approved" in session.get_modelmeta().custom_metadata_map["glocalfair"]


def test_onnx_needs_its_extra_and_a_built_in_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch import nn

    federation = Federation.from_frame(people().drop(CLEAN), label="approved", client="hospital")
    own = train(federation, "fedavg", lambda n: nn.Linear(n, 1), rounds=1).bundle
    assert own is not None
    with pytest.raises(GlocalfairError, match="Only the models 'mlp' and 'linear'"):
        export(own, tmp_path / "own.onnx")
    plain = train(federation, "fedavg", rounds=1).bundle
    assert plain is not None
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(GlocalfairError, match=r"pip install 'glocalfair\[onnx\]'"):
        export(plain, tmp_path / "plain.onnx")


def test_the_card_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    nasty = people().with_columns(sex=pl.col("sex").replace("Female", "F|<b>x</b>"))
    nasty.write_csv("people.csv")
    flags = ["--label", "approved", "--sensitive", "sex", "--client", "hospital", "--rounds", 3, "--output", "run"]
    assert glocalfair("run", "--data", "people.csv", *flags, "--quiet").exit_code == 0
    done = glocalfair("card", "run")
    assert done.exit_code == 0, done.output
    for words in (
        "# Model card: run",
        "positive is “yes”",
        "## Constraints",
        "can be measured were kept",
        "What leaves a client",
        "| EOD sex |",
        "3 of 3",
        "Leak? 'letter'",
        "glocalfair predict run/model.glocalfair",
        "global test",
    ):
        assert words in done.stdout
    assert "<b>" not in done.stdout and "F\\|&lt;b>" in done.stdout
    assert glocalfair("card", "run", "-o", "CARD.md").exit_code == 0
    assert Path("CARD.md").read_text(encoding="utf-8") == done.stdout
    assert glocalfair("export", "run", "--onnx", "model.onnx").exit_code == 0


def test_the_card_of_another_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    glocalfair("run", *SMALL, "--rounds", 1, "--method", "fedavg", "--output", run, "--quiet")
    text = glocalfair("card", run).stdout
    assert "None: the method asks for no bound." in text and "fedavg" in text
    (run / "result.json").unlink()
    assert "is not finished" in glocalfair("card", run).stderr
