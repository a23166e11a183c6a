"""The choice on validation data: the rule by hand, and a tuned file that feeds a comparison."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from glocalfair.compare import Trial, choose, read_tuned, tune, write_tuned
from glocalfair.compare.entries import names
from glocalfair.compare.tuning import candidates, choose_trial
from glocalfair.errors import GlocalfairError

from .small import compared, small


def trial(name: str, accuracy: float, eod: float, positive: float = 0.3) -> Trial:
    return Trial({"name": name}, accuracy, positive, {"sex": eod, "race": eod})


REFERENCE = trial("fedavg", 0.85, 0.2)


def test_the_rule() -> None:
    near, far = trial("near", 0.841, 0.1), trial("far", 0.83, 0.05)
    assert choose_trial([REFERENCE, near, far], REFERENCE, 0.01) == (near, True)
    assert choose_trial([REFERENCE, near, far], REFERENCE, 0.05) == (far, True)
    assert choose_trial([far, trial("worse", 0.5, 0.0)], REFERENCE, 0.01) == (far, False)
    constant = trial("constant", 0.85, 0.0, positive=0.001)
    assert choose_trial([constant, near], REFERENCE, 0.01) == (near, True)
    undefined = trial("undefined", 0.86, math.nan)
    assert choose_trial([undefined, near], REFERENCE, 0.01) == (near, True)
    assert math.isnan(undefined.mean_eod)


def test_the_defaults_are_always_tried_and_what_is_fixed_is_not_varied() -> None:
    assert candidates("fedavg", {}) == [{}]
    assert len(candidates("gifair", {})) == 5  # the default is one of the grid
    assert candidates("qffl", {"q": 3.0}) == [{}]
    assert {"local_debias": "none"} in candidates("fairfed", {"beta": 2.0})


def test_a_tuned_file_feeds_a_comparison(tmp_path: Path) -> None:
    config = small()
    choices, reference, root = tune(config, ["gifair", "reweighing"], tmp_path / "runs", seeds=2, workers=1)
    assert [choice.method for choice in choices] == ["gifair", "reweighing"]
    # Validation figures of the last round, mean over seeds.
    told = [
        json.loads((root / "fedavg default" / f"seed{seed}" / "rounds.jsonl").read_text().splitlines()[-1])
        for seed in (0, 1)
    ]
    assert reference.accuracy == pytest.approx(np.mean([each["validation"]["accuracy"] for each in told]))
    single = [
        json.loads((root / "reweighing default" / "b" / f"seed{seed}" / "rounds.jsonl").read_text().splitlines()[-1])
        for seed in (0, 1)
    ]
    assert choices[1].chosen.eod["b"] == pytest.approx(np.mean([each["validation"]["eod"]["b"] for each in single]))
    path = tmp_path / "tuned.toml"
    text = write_tuned(choices, reference, 0.01, ["Written by hand"])
    path.write_text(text)
    assert text.count("\n# gifair") == 5 and text.count("chosen") == 2
    assert tomllib.loads(text)["methods"]["gifair"] == choices[0].chosen.settings
    entries = choose(["fedavg", "gifair"], config, read_tuned(path))
    assert entries[1].settings == choices[0].chosen.settings


def test_the_final_model_is_judged_where_it_is_not_the_last(tmp_path: Path) -> None:
    config = replace(small(), train=replace(small().train, average_last=3))
    _, averaged, _ = tune(config, [], tmp_path / "three", seeds=1, workers=1)
    _, last, _ = tune(small(), [], tmp_path / "last", seeds=1, workers=1)
    three = (tmp_path / "three" / "fedavg default" / "seed0" / "rounds.jsonl").read_bytes()
    assert three == (tmp_path / "last" / "fedavg default" / "seed0" / "rounds.jsonl").read_bytes()
    assert averaged != last


def test_without_validation_rows_there_is_nothing_to_tune_on(tmp_path: Path) -> None:
    config = replace(small(), split=replace(small().split, validation=0.0))
    with pytest.raises(GlocalfairError, match=r"split\.validation"):
        tune(config, [], tmp_path, seeds=1, workers=1)


def test_every_method_can_be_compared(tmp_path: Path) -> None:
    comparison = compared(tmp_path, *names("all"), config=small(values=3), seeds=1)
    assert len(comparison.rows) == len(names("all"))
    assert all(not math.isnan(row.cells["global.accuracy"].value) for row in comparison.rows)
