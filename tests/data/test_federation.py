"""Federations: every row in one place, whatever the partition; the table agrees with a count by hand."""

import dataclasses
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glocalfair.data import PARTITIONS, PartitionSpec, SplitSpec, build, load, who_holds_what
from glocalfair.errors import GlocalfairError

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
