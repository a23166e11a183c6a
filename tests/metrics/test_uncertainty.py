"""Intervals and floors against simulations written differently, and the cases where nothing is defined."""

from __future__ import annotations

import numpy as np
import pytest

from glocalfair import metrics as m
from glocalfair.metrics import defined
from glocalfair.rng import generator

TABLE = np.array([[[60, 20], [8, 22]], [[100, 10], [10, 30]], [[30, 6], [4, 8]]])


def rows_of(table: np.ndarray) -> np.ndarray:
    cells = np.argwhere(np.ones_like(table))
    return np.repeat(cells, table.ravel(), axis=0)


def test_resampling_cells_is_resampling_rows() -> None:
    random, rows = np.random.default_rng(1), rows_of(TABLE)
    values = []
    for _ in range(1500):
        group, y, p = rows[random.integers(0, len(rows), len(rows))].T
        values.append(float(m.eod(m.count(y, p, group, 3)[0])))
    low, high = m.bootstrap(TABLE, m.eod, generator(0), draws=4000)
    assert low == pytest.approx(np.quantile(values, 0.025), abs=0.02)
    assert high == pytest.approx(np.quantile(values, 0.975), abs=0.03)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    truth = np.array([[[0.2, 0.1], [0.05, 0.15]], [[0.3, 0.02], [0.1, 0.08]]])
    samples = generator(3).multinomial(800, truth.ravel(), size=400).reshape(400, 2, 2, 2)
    for metric in (m.dpd, m.equal_opportunity, lambda table: m.accuracy(m.pooled(table))):
        low, high = m.bootstrap(samples, metric, generator(4), draws=300)
        value = float(metric(truth * 1_000_000))
        assert 0.91 < float(np.mean((low <= value) & (value <= high))) < 0.98


def by_simulation(table: np.ndarray, name: str, draws: int) -> float:
    """Relabel the rows one by one with a coin that does not know the group."""
    random = np.random.default_rng(7)
    group, y, p = rows_of(table).T
    chance = np.where(y == 1, p[y == 1].mean(), p[y == 0].mean())
    if name in ("dpd", "dp_dis", "eod_literal"):
        chance = np.full(len(p), p.mean())
    values = []
    for _ in range(draws):
        fair = (random.random(len(p)) < chance).astype(int)
        values.append(abs(float(m.METRICS[name].function(m.count(y, fair, group, len(table))[0]))))
    return float(np.mean(values))


@pytest.mark.parametrize("name", list(m.FAIRNESS))
def test_noise_floor_equals_a_simulation_row_by_row(name: str) -> None:
    floor = m.noise_floor(TABLE, name, generator(0), draws=4000)
    assert floor == pytest.approx(by_simulation(TABLE, name, 1500), rel=0.06)
    assert m.excess(TABLE, name, generator(0), draws=4000) == pytest.approx(
        abs(float(m.METRICS[name].function(TABLE))) - floor
    )


def test_noise_floor_of_two_large_groups_is_the_half_normal_mean() -> None:
    table = np.array([[[0, 0], [5000, 5000]], [[0, 0], [5000, 5000]]])
    expected = np.sqrt(2 / np.pi) * np.sqrt(2 * 0.25 / 10_000)
    assert m.noise_floor(table, "equal_opportunity", generator(0), 4000) == pytest.approx(expected, rel=0.05)


def test_floors_are_computed_client_by_client() -> None:
    clients = np.stack([TABLE, TABLE * 100, np.zeros_like(TABLE)])
    floors = m.noise_floor(clients, "eod", generator(0), draws=2000)
    assert floors.shape == (3,)
    assert floors[0] == pytest.approx(float(m.noise_floor(TABLE, "eod", generator(1), 2000)), rel=0.05)
    assert floors[1] == pytest.approx(floors[0] / 10, rel=0.1)
    assert np.isnan(floors[2])


@pytest.mark.parametrize(
    "table",
    [
        np.zeros((2, 2, 2), int),
        np.array([[[5, 2], [3, 4]], [[0, 0], [0, 0]]]),
        np.array([[[5, 2], [0, 0]], [[4, 1], [0, 0]]]),
    ],
)
def test_the_undefined_stays_undefined(table: np.ndarray) -> None:
    assert np.isnan(m.noise_floor(table, "eod", generator(0), 50))
    assert np.isnan(m.bootstrap(table, m.eod, generator(0), 50)).all()


def test_draws_keep_rows_and_margins() -> None:
    clients = np.stack([TABLE, TABLE * 2])
    samples = m.resample(clients, generator(0), 50)
    assert (samples.sum(axis=(2, 3, 4)) == clients.sum(axis=(1, 2, 3))).all()
    for fair in ("odds", "parity"):
        drawn = m.fair_draws(clients, fair, generator(0), 50)  # type: ignore[arg-type]
        assert drawn.shape == (50, 2, 3, 2, 2)
        assert (drawn.sum(axis=-1) == clients.sum(axis=-1)).all() and (drawn >= 0).all()


def test_equal_generators_give_equal_figures() -> None:
    assert m.noise_floor(TABLE, "eod", generator(5)) == m.noise_floor(TABLE, "eod", generator(5))
    assert m.bootstrap(TABLE, m.eod, generator(5)) == m.bootstrap(TABLE, m.eod, generator(5))


def test_accuracy_has_no_floor() -> None:
    with pytest.raises(ValueError, match="accuracy"):
        m.noise_floor(TABLE, "accuracy", generator(0))


def test_averages_over_what_is_defined_equal_numpy() -> None:
    values = np.random.default_rng(0).random((20, 6))
    values[np.random.default_rng(1).random(values.shape) < 0.3] = np.nan
    np.testing.assert_allclose(defined.mean(values), np.nanmean(values, axis=0))
    np.testing.assert_allclose(defined.std(values), np.nanstd(values, axis=0))
    np.testing.assert_allclose(defined.quantile(values, 0.1), np.nanquantile(values, 0.1, axis=0))
    np.testing.assert_allclose(defined.gap(values, 0), np.nanmax(values, axis=0) - np.nanmin(values, axis=0))
