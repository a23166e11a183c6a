"""The synthetic table: its bias does what it says, and size costs little."""

import dataclasses

import numpy as np
import pytest

from glocalfair.data import Encoder, load
from glocalfair.data.synthetic import SyntheticOptions
from glocalfair.errors import GlocalfairError


def eod(data) -> float:
    """EOD of a least-squares classifier, worst attribute and pair, predictions at the true positive rate."""
    half = np.arange(len(data) // 2)
    x = Encoder.fit(data, half).transform(data).astype(float)
    x = np.column_stack([x, np.ones(len(x))])
    score = x @ np.linalg.lstsq(x[half], data.label[half], rcond=None)[0]
    predicted = score > np.quantile(score[half], 1 - data.label[half].mean())
    test = np.arange(len(data)) >= len(half)
    gaps = []
    for j, attribute in enumerate(data.attributes):
        for y in (0, 1):
            rates = [
                predicted[test & (data.label == y) & (data.groups[:, j] == v)].mean()
                for v in range(len(attribute.values))
            ]
            gaps.append(max(rates) - min(rates))
    return max(gaps)


@pytest.mark.parametrize("as_input", [True, False])
@pytest.mark.parametrize("values", [2, 3])
def test_gaps_grow_with_bias_and_vanish_without(values, as_input):
    gaps = [
        eod(load("synthetic", rows=40_000, values=values, bias=bias, sensitive_as_input=as_input))
        for bias in (0.0, 1.0, 2.0)
    ]
    assert gaps[0] < 0.05
    assert gaps[0] + 0.05 < gaps[1] < gaps[2] - 0.05


def test_bias_sets_base_rates_and_label_noise():
    data = load("synthetic", rows=40_000, bias=1.0, attributes=1)
    low, high = (data.label[data.groups[:, 0] == v].mean() for v in (0, 1))
    assert low + 0.1 < high
    fair = load("synthetic", rows=40_000, bias=0.0, attributes=1)
    low, high = (fair.label[fair.groups[:, 0] == v].mean() for v in (0, 1))
    assert abs(low - high) < 0.02


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.9])
def test_positive_rate_is_exact(rate):
    assert load("synthetic", rows=1_000, positive_rate=rate).label.sum() == round(1_000 * rate)


def test_equal_seeds_equal_tables():
    one, same, other = (load("synthetic", rows=500, seed=seed) for seed in (1, 1, 2))
    for name in ("numeric", "label", "groups", "owner"):
        np.testing.assert_array_equal(getattr(one, name), getattr(same, name))
        assert not np.array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("exponent", [0.0, 1.0, 3.0])
def test_every_natural_client_has_rows_and_sizes_follow_the_power_law(exponent):
    data = load("synthetic", rows=10_000, clients=50, size_exponent=exponent)
    sizes = np.bincount(data.owner, minlength=50)
    assert sizes.sum() == 10_000 and sizes.min() >= 1
    assert abs((sizes[0] - 1) - 2**exponent * (sizes[1] - 1)) <= 1 + 2**exponent


def test_a_million_rows_and_many_clients():
    data = load("synthetic", rows=1_000_000, clients=100_000, features=5, size_exponent=0.5)
    assert data.numeric.dtype == np.float32
    assert np.bincount(data.owner).min() >= 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rows", 0),
        ("features", 0),
        ("clients", 0),
        ("clients", 10_001),
        ("values", 1),
        ("attributes", 0),
        ("attributes", 27),
        ("bias", -1.0),
        ("bias", float("nan")),
        ("size_exponent", -0.1),
        ("positive_rate", 0.0),
        ("positive_rate", 1.0),
    ],
)
def test_impossible_options(field, value):
    with pytest.raises(GlocalfairError, match=f"'{field}' must be"):
        dataclasses.replace(SyntheticOptions(), **{field: value})
