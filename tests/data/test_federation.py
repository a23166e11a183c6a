"""Federations: every row in one place, whatever the partition; the table agrees with a count by hand."""

import dataclasses
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glocalfair.config import build as configuration
from glocalfair.data import PARTITIONS, PartitionSpec, SplitSpec, build, load, who_holds_what
from glocalfair.data.federation import arranged
from glocalfair.errors import GlocalfairError
from glocalfair.experiment import Experiment
from glocalfair.types import Attribute, Client, Federation

ROOT = Path(__file__).parents[2]
DATA = load("synthetic", rows=1_200, clients=7, size_exponent=1.0, attributes=2, values=3)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(PARTITIONS)),
    clients=st.integers(1, 15),
    folds=st.sampled_from([0, 5]),
    seed=st.integers(0, 99),
)
def test_every_row_is_in_one_place(name, clients, folds, seed):
    partition = PartitionSpec(name, clients=clients, min_rows=0, mean=50.0)
    federation, _ = build(DATA, partition, SplitSpec(folds=folds, fold=folds // 2), seed)
    placed = [part for c in federation.clients for part in (c.train, c.validation, c.test)] + [federation.test]
    rows = np.concatenate(placed)
    assert len(rows) == len(np.unique(rows)) == len(DATA) - federation.unused
    assert federation.unused == 0 or name.startswith("sizes")
    names = [client.name for client in federation.clients]
    assert names == sorted(set(names))
    assert all(len(client.train) for client in federation.clients)
    assert all((np.diff(part) > 0).all() for part in placed)


def test_equal_seeds_equal_federations():
    (one, a), (same, b), (other, _) = (build(DATA, PartitionSpec("dirichlet"), SplitSpec(), s) for s in (4, 4, 5))
    np.testing.assert_array_equal(one.x, same.x)
    assert a == b
    for mine, its in zip(one.clients, same.clients, strict=True):
        np.testing.assert_array_equal(mine.train, its.train)
    assert not np.array_equal(one.test, other.test)
    assert not np.array_equal(one.clients[0].train, other.clients[0].train)


def drawn_by_hand(dtype=np.float32):
    """Rows that lie anywhere; who holds nothing in a part has none, and the last twenty rows are nobody's."""
    rng = np.random.default_rng(0)
    *held, tested, _ = np.split(rng.permutation(100), [30, 33, 33, 50, 60, 61, 80])
    clients = (Client("a", *held[:3]), Client("b", *held[3:]))
    groups = rng.integers(0, 3, (100, 2))
    attributes = (Attribute("u", ("x", "y", "z")), Attribute("v", ("x", "y", "z")))
    x, y = rng.normal(size=(100, 5)).astype(dtype), rng.integers(0, 2, 100)
    return Federation("own", x, y, groups, attributes, clients, tested, unused=20)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_laid_out_as_they_are_used(dtype):
    given = drawn_by_hand(dtype)
    laid = arranged(given)
    pairs = [
        (getattr(before, part), getattr(after, part))
        for part in ("train", "validation", "test")
        for before, after in zip(given.clients, laid.clients, strict=True)
    ]
    pairs.append((given.test, laid.test))
    for old, new in pairs:
        for name in ("x", "y", "groups"):
            np.testing.assert_array_equal(getattr(laid, name)[new], getattr(given, name)[old])
    assert np.concatenate([new for _, new in pairs]).tolist() == list(range(80))
    unused = np.setdiff1d(np.arange(100), np.concatenate([old for old, _ in pairs]))
    np.testing.assert_array_equal(laid.x[80:], given.x[unused])
    assert [client.name for client in laid.clients] == ["a", "b"]
    assert laid.x.dtype == dtype and laid.x.ctypes.data % 64 == 0
    assert arranged(laid) is laid


def test_shared_rows_and_pictures_stay_where_they_are():
    given = drawn_by_hand()
    tested = dataclasses.replace(given, test=given.clients[0].train[:9])
    pictures = dataclasses.replace(given, x=np.zeros((100, 3, 4, 4), dtype=np.uint8))
    assert arranged(tested) is tested and arranged(pictures) is pictures


def test_a_given_federation_keeps_its_numbers_and_trains_the_same():
    """It must not matter to the result whether a federation was given or made from the configuration."""
    config = configuration({"data": {"name": "synthetic", "rows": 600}, "train": {"rounds": 2}})
    federation, _ = build(load("synthetic", rows=600), config.partition, config.split, config.run.seed)
    given, made = Experiment.prepare(config, federation), Experiment.prepare(config)
    assert given.federation is federation and given.simulator.federation is not federation
    assert made.federation is made.simulator.federation, "no second copy is kept"
    np.testing.assert_array_equal(given.complete().weights, made.complete().weights)


def test_adult_as_in_the_paper():
    federation, encoder = build(load("adult"), PartitionSpec(), SplitSpec(), seed=0)
    assert federation.x.shape == (48_842, 107)
    assert federation.feature_names == encoder.names
    assert [c.name for c in federation.clients] == [
        "Female·Non-White",
        "Female·White",
        "Male·Non-White",
        "Male·White",
    ]
    assert len(federation.test) == 4_884
    for client in federation.clients:
        np.testing.assert_allclose(
            [len(client.train), len(client.validation), len(client.test)],
            np.array([0.7, 0.1, 0.2]) * len(client),
            atol=1,
        )


def test_natural_clients_keep_their_rows():
    federation, _ = build(DATA, PartitionSpec("by_column"), SplitSpec(), seed=0)
    for client in federation.clients:
        rows = np.concatenate([client.train, client.validation, client.test])
        assert {DATA.owner_names[code] for code in DATA.owner[rows]} == {client.name}


def test_pictures_are_not_encoded():
    pictures = np.zeros((len(DATA), 3, 4, 4), dtype=np.uint8)
    federation, encoder = build(dataclasses.replace(DATA, images=pictures), PartitionSpec("iid"), SplitSpec(), 0)
    assert encoder is None and federation.x is pictures and federation.feature_names == ()


def test_holdings_agree_with_a_count_by_hand():
    federation, _ = build(DATA, PartitionSpec("sizes", mean=150.0), SplitSpec(), seed=0)
    table = who_holds_what(federation)
    assert table.names[-1] == "(global test)" and len(table.cells) == 9
    assert table.counts.sum() + table.unused == len(DATA)
    for i, client in enumerate(federation.clients):
        rows = np.concatenate([client.train, client.validation, client.test])
        assert table.positives[i] == federation.y[rows].sum()
        assert table.parts[i].tolist() == [len(client.train), len(client.validation), len(client.test)]
        for cell, count in zip(table.cells, table.counts[i], strict=True):
            a, b = (int(value[1]) for value in cell.split("·"))
            assert count == (federation.groups[rows] == (a, b)).all(axis=1).sum()
    text = table.render(limit=2)
    assert "… and 2 more clients" in text and text.endswith("rows are unused")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"label": np.full(1_200, 2)}, "Binary classification only for now"),
        ({"groups": np.full((1_200, 2), 3)}, "a code of 'a' has no name"),
        ({"groups": np.zeros((1_200, 1), dtype=int)}, "a column for each attribute"),
        ({"owner_names": ("same",) * 7}, "two clients have the same name"),
        ({"label": np.zeros(0, dtype=int)}, "have no rows"),
    ],
)
def test_impossible_data(changes, text):
    with pytest.raises(GlocalfairError, match=text):
        build(dataclasses.replace(DATA, **changes), PartitionSpec("iid"), SplitSpec(), seed=0)


def test_tables_of_the_docs_are_up_to_date():
    spec = importlib.util.spec_from_file_location("partition_tables", ROOT / "tools" / "partition_tables.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = tool.PAGE.read_text("utf-8")
    assert len(tool.MARKED.findall(page)) >= len(PARTITIONS)
    assert tool.fill(page) == page


def test_the_example_of_the_docs_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "partitions.md").read_text("utf-8"), re.DOTALL)
    exec(code, {})
    assert "client-03" in capsys.readouterr().out
