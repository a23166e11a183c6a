"""A scikit-learn classifier: its own checks, a pipeline, and fairlearn's tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from fairlearn.metrics import MetricFrame
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from glocalfair import GLocalFairClassifier

from ..frame.people import people


def test_scikit_learn_accepts_it() -> None:
    checks = check_estimator(GLocalFairClassifier(), on_fail="raise", on_skip=None)
    skipped = [check["check_name"] for check in checks if check["status"] == "skipped"]
    assert set(skipped) <= {"check_array_api_input"}
    assert len(checks) > 40


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.DataFrame(people().to_dict(as_series=False)).fillna({"income": 45.0, "job": "unknown"})


def pipeline(**settings: Any) -> Any:
    columns = make_column_transformer((StandardScaler(), ["age", "income"]), (OneHotEncoder(), ["job", "sex"]))
    return make_pipeline(columns, GLocalFairClassifier(rounds=8, **settings))


def test_in_a_pipeline_and_with_fairlearn(frame: pd.DataFrame) -> None:
    told = {
        "glocalfairclassifier__sensitive_features": frame[["sex", "race"]],
        "glocalfairclassifier__clients": frame["hospital"],
    }
    fitted = pipeline().fit(frame, frame["approved"], **told)
    predicted = fitted.predict(frame)
    table = MetricFrame(
        metrics=accuracy_score, y_true=frame["approved"], y_pred=predicted, sensitive_features=frame["sex"]
    )
    assert table.overall > 0.7 and set(table.by_group.index) == {"Female", "Male"}
    proba = fitted.predict_proba(frame)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(predicted, np.where(proba[:, 1] > 0.5, "yes", "no"))
    result = fitted[-1].result_
    assert list(result.rounds[-1]["participants"]) == ["north", "south", "west"]


def test_the_groups_matter(frame: pd.DataFrame) -> None:
    x, y = frame[["age", "income"]].to_numpy(), frame["approved"]
    plain = GLocalFairClassifier(rounds=6).fit(x, y)
    fair = GLocalFairClassifier(rounds=6).fit(x, y, sensitive_features=frame["sex"])
    assert not np.array_equal(plain.decision_function(x), fair.decision_function(x))
    again = clone(fair).fit(x, y, sensitive_features=frame["sex"])
    np.testing.assert_array_equal(again.decision_function(x), fair.decision_function(x))


def test_settings_can_be_searched(frame: pd.DataFrame) -> None:
    search = GridSearchCV(GLocalFairClassifier("fedavg", rounds=2, n_clients=3), {"lr": [0.01, 0.1]}, cv=2)
    search.fit(frame[["age", "income"]], frame["approved"])
    assert search.best_params_["lr"] in (0.01, 0.1)


@pytest.mark.parametrize(
    "groups", [["F", "M"] * 20, [["F", "x"], ["M", None]] * 20, {"sex": ["F", "M"] * 20}, np.array([0, 1] * 20)]
)
def test_groups_of_many_kinds(groups: Any) -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    y = (x[:, 0] > 0).astype(int)
    fitted = GLocalFairClassifier(rounds=1).fit(x, y, sensitive_features=groups)
    assert len(fitted.result_.metrics["global"]["eod"]) >= 1


def test_lengths_must_agree() -> None:
    x, y = np.zeros((6, 1)) + np.arange(6)[:, None], np.array([0, 1] * 3)
    with pytest.raises(ValueError, match="'sensitive_features' has 2 rows, X has 6"):
        GLocalFairClassifier().fit(x, y, sensitive_features=["F", "M"])
    with pytest.raises(ValueError, match="'clients' has 1 rows, X has 6"):
        GLocalFairClassifier().fit(x, y, clients=["a"])
