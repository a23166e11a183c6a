"""Fairness metrics against fairlearn where they are defined, a loop over rows, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from fairlearn import metrics as fl
from hypothesis import given
from hypothesis import strategies as st

from glocalfair import metrics as m
from glocalfair.errors import GlocalfairError

from .samples import Rows, rows

# Two groups by hand: TPR 3/4, 1/2; FPR 1/5, 1/10; R 5/14, 3/14; overall TPR 5/8, FPR 3/20, R 8/28.
HAND = np.array([[[8, 2], [1, 3]], [[9, 1], [2, 2]]])


def test_by_hand() -> None:
    assert m.eod(HAND) == pytest.approx(1 / 4)
    assert m.equal_opportunity(HAND) == pytest.approx(1 / 4)
    assert m.equal_opportunity(HAND[::-1]) == pytest.approx(-1 / 4)
    assert m.dpd(HAND) == pytest.approx(1 / 7)
    assert m.eod_literal(HAND) == pytest.approx(1 / 7)
    assert m.dp_dis(HAND) == pytest.approx(1 / 14)
    assert m.fned(HAND) == pytest.approx(1 / 4)
    assert m.fped(HAND) == pytest.approx(1 / 10)
    assert m.worst_pair(HAND) == m.Pair("TPR", 1, 0, pytest.approx(1 / 4))  # type: ignore[arg-type]
    assert m.worst_pair(HAND, "fped") == m.Pair("FPR", 1, 0, pytest.approx(1 / 10))  # type: ignore[arg-type]


def test_more_than_two_groups_have_no_sign() -> None:
    table = np.concatenate([HAND, [[[5, 0], [4, 0]]]])
    assert m.equal_opportunity(table) == m.equal_opportunity(table[::-1]) == pytest.approx(3 / 4)
    assert m.worst_pair(table) == m.Pair("TPR", 2, 0, 0.75)


@given(rows(least=2))
def test_gaps_equal_fairlearn_where_defined(sample: Rows) -> None:
    table = m.count(sample.y, sample.p, sample.g, sample.groups)[0]
    present = [group for group in range(sample.groups) if (sample.g == group).any()]
    whole = [group for group in present if len(set(sample.y[sample.g == group])) == 2]
    if len(present) < 2:
        assert np.isnan(m.dpd(table)) and np.isnan(m.dp_dis(table))
        return
    theirs = fl.demographic_parity_difference(sample.y, sample.p, sensitive_features=sample.g)
    assert m.dpd(table) == pytest.approx(theirs)
    assert m.eod_literal(table) == m.dpd(table)
    # fairlearn calls an undefined rate 0, so the two agree only if every group has both labels.
    if whole == present:
        theirs = fl.equalized_odds_difference(sample.y, sample.p, sensitive_features=sample.g)
        assert m.eod(table) == pytest.approx(theirs)
        theirs = fl.equal_opportunity_difference(sample.y, sample.p, sensitive_features=sample.g)
        assert abs(m.equal_opportunity(table)) == pytest.approx(theirs)


def by_loop(sample: Rows) -> dict[str, float]:
    """Every metric from the rows, in plain Python."""

    def rates(kept: np.ndarray) -> dict[int, float]:
        values = {}
        for group in range(sample.groups):
            chosen = [int(p) for p, k, g in zip(sample.p, kept, sample.g, strict=True) if k and g == group]
            if chosen:
                values[group] = sum(chosen) / len(chosen)
        return values

    def gap(values: dict[int, float]) -> float:
        return max(values.values()) - min(values.values()) if len(values) > 1 else float("nan")

    def deviations(values: dict[int, float], kept: np.ndarray) -> list[float]:
        overall = float(sample.p[kept].mean()) if kept.any() else float("nan")
        return [abs(value - overall) for value in values.values()] if len(values) > 1 else [float("nan")]

    everyone, positive, negative = sample.y >= 0, sample.y == 1, sample.y == 0
    both = [gap(rates(positive)), gap(rates(negative))]
    return {
        "eod": float("nan") if any(np.isnan(both)) else max(both),
        "dpd": gap(rates(everyone)),
        "eod_literal": gap(rates(everyone)),
        "dp_dis": max(deviations(rates(everyone), everyone)),
        "fned": sum(deviations(rates(positive), positive)),
        "fped": sum(deviations(rates(negative), negative)),
    }


@given(rows())
def test_every_metric_equals_a_loop_over_rows_in_each_client(sample: Rows) -> None:
    table = m.count(sample.y, sample.p, sample.g, sample.groups, sample.c, sample.clients)
    ours = {name: line.function(table) for name, line in m.FAIRNESS.items()}
    for client in range(sample.clients):
        here = sample.c == client
        part = Rows(sample.y[here], sample.p[here], sample.g[here], sample.c[here], sample.groups, 1)
        for name, value in by_loop(part).items():
            assert ours[name][client] == pytest.approx(value, nan_ok=True), name


@given(rows(groups=3), st.permutations(range(3)))
def test_the_names_of_groups_do_not_matter(sample: Rows, order: list[int]) -> None:
    table = m.count(sample.y, sample.p, sample.g, 3)[0]
    for name, line in m.FAIRNESS.items():
        assert line.function(table[order]) == pytest.approx(line.function(table), nan_ok=True), name
    pair, other = m.worst_pair(table), m.worst_pair(table[order])
    assert (pair is None) == (other is None)
    if pair and other:
        assert pair.gap == pytest.approx(other.gap) == pytest.approx(m.eod(table))


@given(rows(groups=2))
def test_swapping_two_groups_flips_the_sign(sample: Rows) -> None:
    table = m.count(sample.y, sample.p, sample.g, 2)[0]
    flipped = m.equal_opportunity(table[::-1])
    assert flipped == pytest.approx(-m.equal_opportunity(table), nan_ok=True)


@given(rows())
def test_an_empty_group_changes_nothing(sample: Rows) -> None:
    groups = max(sample.groups, 3)  # with two groups a third takes the sign away
    table = m.count(sample.y, sample.p, sample.g, groups)[0]
    longer = m.count(sample.y, sample.p, sample.g, groups + 2)[0]
    for name, line in m.FAIRNESS.items():
        assert line.function(longer) == pytest.approx(line.function(table), nan_ok=True), name


@given(rows())
def test_the_worst_pair_makes_the_gap(sample: Rows) -> None:
    table = m.count(sample.y, sample.p, sample.g, sample.groups)[0]
    for name in ("eod", "dpd"):
        pair, value = m.worst_pair(table, name), m.METRICS[name].function(table)
        if pair is None:
            assert np.isnan(value)
        else:
            rate = {"TPR": m.tpr, "FPR": m.fpr, "positive rate": m.positive_rate}[pair.rate](table)
            assert rate[pair.high] - rate[pair.low] == pytest.approx(value) == pytest.approx(pair.gap)


def test_one_group_has_no_fairness_figure() -> None:
    table = np.array([[[5, 1], [1, 5]], [[0, 0], [0, 0]]])
    for name, line in m.FAIRNESS.items():
        assert np.isnan(line.function(table)), name
    assert m.worst_pair(table) is None


def test_eod_needs_both_gaps() -> None:
    table = np.array([[[5, 1], [0, 0]], [[3, 3], [1, 5]]])
    assert np.isnan(m.eod(table)) and m.worst_pair(table) is None
    assert m.fped(table) > 0 and m.dpd(table) > 0


def test_a_constant_classifier_is_fair_and_useless() -> None:
    table = np.array([[[9, 0], [1, 0]], [[5, 0], [5, 0]]])
    assert m.eod(table) == m.dpd(table) == m.dp_dis(table) == m.fned(table) == 0


def test_dis_skips_clients_without_rows() -> None:
    clients = np.array([[[[3, 1], [0, 0]]], [[[2, 0], [0, 2]]], [[[0, 0], [0, 0]]]])
    assert m.dis(clients) == pytest.approx(1 / 4)
    assert np.isnan(m.dis(clients[1:]))


def test_the_catalogue_describes_every_metric() -> None:
    for name, line in m.METRICS.items():
        assert line.description and "\n" not in line.description, name
        assert line.kind in ("global", "local", "both")
    assert [name for name, line in m.METRICS.items() if line.kind == "local"] == ["dis"]
    with pytest.raises(GlocalfairError, match="Did you mean 'dp_dis'"):
        m.metric("dpdis")
