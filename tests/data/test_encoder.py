"""The encoder: known by hand, blind to all but training rows, and the same after JSON."""

import dataclasses
import json

import numpy as np
import pytest

from glocalfair.data import Encoder, PartitionSpec, SplitSpec, build, load
from glocalfair.errors import GlocalfairError
from glocalfair.types import Attribute, Dataset


def small(**changes) -> Dataset:
    data = Dataset(
        name="small",
        numeric=np.array([[1.0, 5.0, np.nan], [3.0, 5.0, 2.0], [100.0, np.nan, 4.0]]),
        numeric_names=("a", "b", "c"),
        categorical=np.array([[0], [1], [2]]),
        categories=(("k", ("x", "y", "z")),),
        label=np.array([0, 1, 0]),
        groups=np.zeros((3, 1), dtype=int),
        attributes=(Attribute("s", ("0", "1")),),
    )
    return dataclasses.replace(data, **changes)


def test_one_table_by_hand():
    encoder = Encoder.fit(small(), np.array([0, 1]))
    assert encoder.names == ("a", "b", "c", "c missing", "k=x", "k=y", "k=z")
    assert encoder.mean == (2.0, 5.0, 2.0) and encoder.std == (1.0, 0.0, 0.0)
    expected = [[-1, 0, 0, 1, 1, 0, 0], [1, 0, 0, 0, 0, 1, 0], [98, 0, 0, 0, 0, 0, 1]]
    encoded = encoder.transform(small())
    np.testing.assert_array_equal(encoded, expected)
    assert encoded.dtype == np.float32 and encoded.flags["C_CONTIGUOUS"]


def test_a_column_that_is_missing_everywhere_in_training():
    encoder = Encoder.fit(small(), np.array([0]))
    encoded = encoder.transform(small())
    np.testing.assert_array_equal(encoded[:, encoder.names.index("c missing")], [1, 0, 0])
    np.testing.assert_array_equal(encoded[:, 2], 0)


def test_a_constant_with_rounding_noise_is_constant():
    data = small(numeric=np.full((3, 3), 0.1))
    assert Encoder.fit(data, np.arange(3)).std == (0.0, 0.0, 0.0)


def test_columns_and_categories_are_found_by_name():
    encoder = Encoder.fit(small(), np.arange(3))
    turned = small(
        numeric=small().numeric[:, ::-1],
        numeric_names=("c", "b", "a"),
        categories=(("k", ("z", "new", "x")),),
        categorical=np.array([[2], [1], [0]]),
    )
    expected = encoder.transform(small())
    expected[1, -3:] = 0  # "new" was never seen
    np.testing.assert_array_equal(encoder.transform(turned), expected)
    with pytest.raises(GlocalfairError, match="lack the column 'a'"):
        encoder.transform(small(numeric_names=("A", "b", "c")))


def test_json_round_trip():
    encoder = Encoder.fit(load("adult"), np.arange(1_000))
    assert Encoder.from_dict(json.loads(json.dumps(encoder.to_dict(), allow_nan=False))) == encoder


def test_statistics_come_from_training_rows_alone():
    data = load("synthetic", rows=2_000)
    federation, encoder = build(data, PartitionSpec("iid"), SplitSpec(), seed=0)
    train = np.concatenate([client.train for client in federation.clients])
    np.testing.assert_allclose(federation.x[train, :10].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(federation.x[train, :10].std(axis=0), 1, atol=1e-6)

    disturbed = data.numeric.copy()
    disturbed[np.setdiff1d(np.arange(len(data)), train)] = 1e6
    _, same = build(dataclasses.replace(data, numeric=disturbed), PartitionSpec("iid"), SplitSpec(), seed=0)
    assert same == encoder
    disturbed[train[0], 0] = 1e6
    _, other = build(dataclasses.replace(data, numeric=disturbed), PartitionSpec("iid"), SplitSpec(), seed=0)
    assert other != encoder
