"""The stored counts and the result dictionary: layout, pooling, and its figures recomputed another way."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from glocalfair import metrics as m
from glocalfair.errors import GlocalfairError
from glocalfair.types import Attribute

from .samples import Rows, rows

SEX, RACE = Attribute("sex", ("Female", "Male")), Attribute("race", ("A", "B", "C"))
NAMES = ["c0", "c1", "c2", "c3"]


def example(seed: int = 0, size: int = 900) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(seed)
    groups = np.stack([random.integers(0, 2, size), random.integers(0, 3, size)], axis=1)
    y = (random.random(size) < 0.3 + 0.2 * groups[:, 0]).astype(int)
    p = (random.random(size) < 0.2 + 0.4 * y + 0.2 * groups[:, 0]).astype(int)
    return y, p, groups, random.integers(0, 4, size)


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    y, p, groups, client = example()
    groups[client == 3, 0] = 1  # one client without women
    return m.evaluate(y, p, groups, [SEX, RACE], client, NAMES)


def test_each_attribute_is_counted_as_if_alone() -> None:
    y, p, groups, client = example()
    found = m.tables(y, p, groups, [SEX, RACE], client, 4)
    for column, attribute in enumerate([SEX, RACE]):
        alone = m.count(y, p, groups[:, column], len(attribute.values), client, 4)
        np.testing.assert_array_equal(found.table(attribute.name), alone)
    codes, both = m.intersection(groups, [SEX, RACE])
    np.testing.assert_array_equal(found.table("sex×race"), m.count(y, p, codes, 6, client, 4))
    assert [each.name for each in found.reported] == ["sex", "race", "sex×race"] and found.reported[2] == both
    with pytest.raises(KeyError):
        found.table("age")


@given(rows(groups=2), rows(groups=2))
def test_adding_tables_is_counting_the_rows_together(one: Rows, two: Rows) -> None:
    clients = max(one.clients, two.clients)
    parts = [m.tables(each.y, each.p, each.g[:, None], [SEX], each.c, clients) for each in (one, two)]
    together = m.tables(
        np.r_[one.y, two.y],
        np.r_[one.p, two.p],
        np.r_[one.g, two.g][:, None],
        [SEX],
        np.r_[one.c, two.c],
        clients,
    )
    np.testing.assert_array_equal((parts[0] + parts[1]).counts, together.counts)
    np.testing.assert_array_equal(together.pooled().counts[0], together.counts.sum(axis=0))


def test_tables_survive_json() -> None:
    y, p, groups, client = example()
    found = m.tables(y, p, groups, [SEX, RACE], client, 4)
    back = m.Tables.from_dict(json.loads(json.dumps(found.to_dict())))
    assert back.attributes == found.attributes and back.counts.dtype == np.int64
    np.testing.assert_array_equal(back.counts, found.counts)


def test_tables_that_do_not_fit_are_refused() -> None:
    y, p, groups, client = example()
    found = m.tables(y, p, groups, [SEX, RACE], client, 4)
    with pytest.raises(GlocalfairError, match="same attributes"):
        found + found.pooled()
    with pytest.raises(GlocalfairError, match="counts"):
        m.Tables.from_dict({**found.to_dict(), "counts": [[[[1, 2], [3, 4]]]]})
    with pytest.raises(GlocalfairError, match="names of their own"):
        m.tables(y, p, groups, [SEX, SEX])
    with pytest.raises(GlocalfairError, match="client_names"):
        m.summarise(found, found, ["one"])


def test_the_promised_paths(result: dict[str, Any]) -> None:
    everywhere, inside = result["global"], result["local"]
    for name in m.PERFORMANCE:
        assert 0 < everywhere[name] < 1
        low, high = everywhere["intervals"][name]
        assert low < everywhere[name] < high
        assert set(inside[name]) == {"mean", "std", "defined", "clients"}
    for name, line in m.FAIRNESS.items():
        heading = "dp_dis_by" if line.averaged else name
        for attribute in ("sex", "race", "sex×race"):
            value, floor = everywhere[heading][attribute], everywhere["noise_floor"][heading][attribute]
            assert everywhere["excess"][heading][attribute] == pytest.approx(abs(value) - floor)
            low, high = everywhere["intervals"][heading][attribute]
            assert low <= high
            assert set(inside[heading][attribute]) == {"mean", "std", "defined", "clients"}
            assert inside["noise_floor"][heading][attribute] > 0
            assert isinstance(inside["excess"][heading][attribute], float)
    assert everywhere["constant"] is False and everywhere["examples"] == 900
    json.dumps(result)


def test_dp_dis_is_the_mean_over_attributes_without_the_intersection(result: dict[str, Any]) -> None:
    for figures in (result["global"], result["global"]["noise_floor"], result["global"]["excess"]):
        by = figures["dp_dis_by"]
        assert figures["dp_dis"] == pytest.approx((by["sex"] + by["race"]) / 2)
    low, high = result["global"]["intervals"]["dp_dis"]
    assert low < result["global"]["dp_dis"] < high


def test_local_figures_equal_a_loop_over_clients(result: dict[str, Any]) -> None:
    y, p, groups, client = example()
    groups[client == 3, 0] = 1
    eods, distances, accuracies = [], [], []
    for each in range(4):
        here = client == each
        found = m.tables(y[here], p[here], groups[here], [SEX, RACE])
        eods.append(float(m.eod(found.table("sex")[0])))
        by = [float(m.dp_dis(found.table(name)[0])) for name in ("sex", "race")]
        distances.append(np.mean([value for value in by if not math.isnan(value)]))
        accuracies.append(float((y[here] == p[here]).mean()))
    assert math.isnan(eods[3])
    local = result["local"]
    spread = {"mean": pytest.approx(np.mean(eods[:3])), "std": pytest.approx(np.std(eods[:3]))}
    assert local["eod"]["sex"] == {**spread, "defined": 3, "clients": 4}
    assert local["dp_dis"]["mean"] == pytest.approx(np.mean(distances)) and local["dp_dis"]["defined"] == 4
    assert local["accuracy"]["mean"] == pytest.approx(np.mean(accuracies))
    assert local["dis"] == pytest.approx(max(accuracies) - min(accuracies))
    assert [row["name"] for row in local["clients"]] == NAMES
    for row, eod, distance, accuracy in zip(local["clients"], eods, distances, accuracies, strict=True):
        assert row["eod"]["sex"] == pytest.approx(eod, nan_ok=True)
        assert row["dp_dis"] == pytest.approx(distance)
        assert row["accuracy"] == pytest.approx(accuracy)
    assert [row["examples"] for row in local["clients"]] == np.bincount(client).tolist()


def test_local_excess_is_averaged_over_the_clients_where_it_is_defined(result: dict[str, Any]) -> None:
    local = result["local"]
    expected = local["eod"]["sex"]["mean"] - local["noise_floor"]["eod"]["sex"]
    assert local["excess"]["eod"]["sex"] == pytest.approx(expected)


def test_the_worst_pair_has_names() -> None:
    table = np.array([[[[8, 2], [1, 3]], [[9, 1], [2, 2]]]])
    found = m.Tables((SEX,), table)
    worst = m.summarise(found, found, ["c"], draws=20)["global"]["worst_pair"]["sex"]
    assert worst == {"rate": "TPR", "groups": ["Male", "Female"], "gap": 0.25}


def test_one_group_clients_are_undefined_with_their_count() -> None:
    """Each client holds one sex and one race: no local fairness, though there is a global one."""
    y, p, groups, _ = example()
    result = m.evaluate(y, p, groups, [SEX, RACE], groups[:, 0] * 3 + groups[:, 1], [f"c{i}" for i in range(6)])
    for figures in (result["local"]["eod"]["sex"], result["local"]["dp_dis"]):
        assert math.isnan(figures["mean"]) and math.isnan(figures["std"])
        assert figures["defined"] == 0 and figures["clients"] == 6
    assert math.isnan(result["local"]["noise_floor"]["eod"]["sex"])
    assert result["global"]["eod"]["sex"] > 0 and result["local"]["dis"] > 0


def test_a_collapsed_classifier_is_flagged() -> None:
    y, _, groups, _ = example()
    for constant in (np.zeros_like(y), np.ones_like(y)):
        result = m.evaluate(y, constant, groups, [SEX, RACE])["global"]
        assert result["constant"] is True and result["eod"]["sex"] == 0
        assert result["noise_floor"]["eod"]["sex"] == 0
    assert math.isnan(m.evaluate(y, np.zeros_like(y), groups, [SEX, RACE])["global"]["precision"])


def test_nothing_to_evaluate_is_nan_not_an_error() -> None:
    nobody = np.zeros((0, 2), int)
    result = m.evaluate([], [], nobody, [SEX, RACE], [], ["a", "b"], draws=10)
    assert math.isnan(result["global"]["accuracy"]) and math.isnan(result["local"]["dis"])
    assert result["global"]["constant"] is False and result["local"]["accuracy"]["defined"] == 0
    assert result["global"]["worst_pair"] == {"sex": None, "race": None, "sex×race": None}


def test_without_attributes_accuracy_remains() -> None:
    result = m.evaluate([1, 0], [1, 1], np.zeros((2, 0), int), [], draws=10)["global"]
    assert result["accuracy"] == 0.5 and math.isnan(result["dp_dis"]) and "eod" not in result


@settings(max_examples=25)
@given(rows(groups=2))
def test_any_rows_give_a_result(sample: Rows) -> None:
    names = [f"c{i}" for i in range(sample.clients)]
    result = m.evaluate(sample.y, sample.p, sample.g[:, None], [SEX], sample.c, names, draws=20)
    assert set(result) == {"global", "local"} and set(result["global"]["eod"]) == {"sex"}


def test_equal_seeds_equal_results() -> None:
    y, p, groups, client = example()
    one, two, other = (m.evaluate(y, p, groups, [SEX, RACE], client, NAMES, seed=seed, draws=50) for seed in (1, 1, 2))
    assert json.dumps(one) == json.dumps(two)
    assert one["global"]["intervals"] != other["global"]["intervals"]
    assert one["global"]["eod"] == other["global"]["eod"]


def test_noise_floors_do_not_depend_on_how_many_clients_are_drawn_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    y, p, groups, client = example()
    whole = m.evaluate(y, p, groups, [SEX, RACE], client, NAMES, draws=50)
    monkeypatch.setattr("glocalfair.metrics.evaluation._TOGETHER", 3)
    assert json.dumps(m.evaluate(y, p, groups, [SEX, RACE], client, NAMES, draws=50)) == json.dumps(whole)
