"""Counts and rates against fairlearn and scikit-learn, and what happens when a denominator is 0."""

from __future__ import annotations

import numpy as np
import pytest
from fairlearn import metrics as fl
from hypothesis import given
from sklearn import metrics as sk

from glocalfair import metrics as m
from glocalfair.errors import GlocalfairError
from glocalfair.types import Attribute

from .samples import Rows, rows

ORACLES = {
    m.tpr: fl.true_positive_rate,
    m.fpr: fl.false_positive_rate,
    m.fnr: fl.false_negative_rate,
    m.tnr: fl.true_negative_rate,
    m.positive_rate: fl.selection_rate,
    m.accuracy: sk.accuracy_score,
}


@given(rows())
def test_rates_by_group_equal_fairlearn_where_defined(sample: Rows) -> None:
    table = m.count(sample.y, sample.p, sample.g, sample.groups)[0]
    for ours, theirs in ORACLES.items():
        for group in range(sample.groups):
            here = sample.g == group
            kept = {m.tpr: sample.y == 1, m.fnr: sample.y == 1, m.fpr: sample.y == 0, m.tnr: sample.y == 0}
            if not (here & kept.get(ours, here)).any():
                assert np.isnan(ours(table)[group])
            else:
                assert ours(table)[group] == pytest.approx(_theirs(theirs, sample.y[here], sample.p[here]))


def _theirs(function, y: np.ndarray, p: np.ndarray) -> float:  # type: ignore[no-untyped-def]
    options = {"pos_label": 1} if "rate" in function.__name__ else {}
    return float(function(y, p, **options))


@given(rows())
def test_overall_figures_equal_scikit_learn(sample: Rows) -> None:
    cells = m.pooled(m.count(sample.y, sample.p, sample.g, sample.groups)[0])
    assert m.accuracy(cells) == pytest.approx(sk.accuracy_score(sample.y, sample.p))
    assert m.positive_rate(cells) == pytest.approx(sample.p.mean())
    if sample.p.any():
        assert m.precision(cells) == pytest.approx(sk.precision_score(sample.y, sample.p))
    else:
        assert np.isnan(m.precision(cells))
    if sample.y.any():
        assert m.recall(cells) == pytest.approx(sk.recall_score(sample.y, sample.p))
    if 0 < sample.y.sum() < len(sample.y):
        assert m.balanced_accuracy(cells) == pytest.approx(sk.balanced_accuracy_score(sample.y, sample.p))
    else:
        assert np.isnan(m.balanced_accuracy(cells))


@given(rows())
def test_counts_equal_a_loop_over_rows(sample: Rows) -> None:
    table = np.zeros((sample.clients, sample.groups, 2, 2), int)
    for y, p, group, client in zip(sample.y, sample.p, sample.g, sample.c, strict=True):
        table[client, group, y, p] += 1
    counted = m.count(sample.y, sample.p, sample.g, sample.groups, sample.c, sample.clients)
    assert counted.dtype == np.int64
    np.testing.assert_array_equal(counted, table)


def test_no_rows_are_zeros_and_every_rate_is_undefined() -> None:
    table = m.count([], [], [], 3, [], 2)
    assert table.shape == (2, 3, 2, 2) and table.sum() == 0
    for name, line in m.METRICS.items():
        assert np.isnan(line.function(table)).all(), name


def test_leading_axes_are_kept() -> None:
    table = np.arange(2 * 5 * 3 * 4).reshape(2, 5, 3, 2, 2)
    assert m.tpr(table).shape == (2, 5, 3)
    assert m.accuracy(m.pooled(table)).shape == (2, 5)


def test_booleans_and_whole_floats_are_labels() -> None:
    np.testing.assert_array_equal(m.count([True, False], [1.0, 0.0], [0, 0], 1), m.count([1, 0], [1, 0], [0, 0], 1))


@pytest.mark.parametrize(
    ("y", "shown"),
    [
        ([0, 1, 2], "Got 0, 1, 2 instead"),
        ([0.0, 0.5, 1.0], "Got 0.0, 0.5, 1.0 instead"),
        ([0.0, 1.0, np.nan], "nan"),
        (["yes", "no", "no"], "Got no, yes instead"),
        ([-1, 1, 1], "Got -1, 1 instead"),
    ],
)
def test_other_labels_are_refused(y: list[object], shown: str) -> None:
    with pytest.raises(GlocalfairError, match="Binary classification only for now: 'y'") as error:
        m.count(y, [0, 1, 1], [0, 0, 0], 1)
    assert shown in str(error.value)
    with pytest.raises(GlocalfairError, match="Binary classification only for now: 'prediction'"):
        m.count([0, 1, 1], y, [0, 0, 0], 1)


def test_many_labels_are_shown_shortened() -> None:
    with pytest.raises(GlocalfairError, match="Got 0, 1, 2, 3, 4, … instead"):
        m.count(range(10), np.zeros(10), np.zeros(10, int), 1)


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        (([0, 1], [0], [0, 0], 1), "prediction"),
        (([[0, 1]], [0], [0, 0], 1), "y"),
        (([0, 1], [0, 1], [0], 1), "groups"),
        (([0, 1], [0, 1], [0, 2], 2), "groups"),
        (([0, 1], [0, 1], [0, -1], 2), "groups"),
        (([0, 1], [0, 1], [0.0, 1.0], 2), "groups"),
        (([0, 1], [0, 1], [0, 1], 2, [0, 3], 3), "client"),
    ],
)
def test_bad_arrays_name_the_parameter(arguments: tuple[object, ...], parameter: str) -> None:
    with pytest.raises(GlocalfairError, match=f"'{parameter}"):
        m.count(*arguments)  # type: ignore[arg-type]


def test_intersection_keeps_empty_combinations() -> None:
    sex, race = Attribute("sex", ("Female", "Male")), Attribute("race", ("A", "B", "C"))
    codes, both = m.intersection(np.array([[0, 2], [1, 0], [1, 0]]), [sex, race])
    assert both == Attribute("sex×race", ("Female×A", "Female×B", "Female×C", "Male×A", "Male×B", "Male×C"))
    assert codes.tolist() == [2, 3, 3]


def test_intersection_refuses_what_does_not_fit() -> None:
    sex = Attribute("sex", ("F", "M"))
    with pytest.raises(GlocalfairError, match="sex"):
        m.intersection([[2]], [sex])
    with pytest.raises(GlocalfairError, match="groups"):
        m.intersection([[0, 0]], [sex])
    with pytest.raises(GlocalfairError, match="List fewer attributes"):
        m.joint([Attribute(str(i), ("0", "1")) for i in range(13)])
