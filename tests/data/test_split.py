"""Splits: disjoint, complete, stratified, exact totals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glocalfair.data.cells import Cells
from glocalfair.data.split import TEST, TRAIN, VALIDATION, SplitSpec, client_parts, global_test
from glocalfair.errors import GlocalfairError


@st.composite
def labelled(draw):
    n, cells = draw(st.integers(1, 400)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = rng.integers(cells, size=n)
    label = (rng.random(n) < draw(st.sampled_from([0.0, 0.1, 0.5]))).astype(int)
    return label, Cells(codes, tuple(map(str, range(cells)))), rng.integers(draw(st.integers(1, 8)), size=n)


def strata_of(label, cells):
    return [np.flatnonzero((label == y) & (cells.codes == c)) for y in (0, 1) for c in range(len(cells.names))]


@settings(max_examples=100, deadline=None)
@given(data=labelled(), share=st.sampled_from([0.0, 0.1, 0.25, 0.5]), seed=st.integers(0, 99))
def test_global_test_set_is_exact_and_stratified(data, share, seed):
    label, cells, _ = data
    mask = global_test(label, cells, SplitSpec(test=share), seed)
    assert mask.sum() == round(len(label) * share)
    for rows in strata_of(label, cells):
        # The rounding of the total moves the rate by at most half a row, the spacing costs less than one.
        assert abs(mask[rows].sum() - len(rows) * share) < 1.5
    np.testing.assert_array_equal(mask, global_test(label, cells, SplitSpec(test=share), seed))


@settings(max_examples=50, deadline=None)
@given(data=labelled(), folds=st.integers(2, 12), seed=st.integers(0, 99))
def test_folds_test_each_row_once(data, folds, seed):
    label, cells, _ = data
    masks = np.array([global_test(label, cells, SplitSpec(folds=folds, fold=i), seed) for i in range(folds)])
    assert (masks.sum(axis=0) == 1).all()
    assert np.ptp(masks.sum(axis=1)) <= 1
    for rows in strata_of(label, cells):
        assert np.ptp(masks[:, rows].sum(axis=1)) <= 1


@settings(max_examples=100, deadline=None)
@given(
    data=labelled(),
    shares=st.sampled_from([(0.1, 0.2), (0.0, 0.0), (0.3, 0.3), (0.49, 0.5), (0.0, 0.9)]),
    seed=st.integers(0, 99),
)
def test_parts_of_each_client(data, shares, seed):
    label, cells, client = data
    spec = SplitSpec(validation=shares[0], local_test=shares[1])
    parts = client_parts(client, label, cells, spec, seed)
    assert set(parts) <= {TRAIN, VALIDATION, TEST}
    for name in set(client):
        mine = client == name
        assert (parts[mine] == TRAIN).any()
        for part, share in ((VALIDATION, shares[0]), (TEST, shares[1]), (TRAIN, 1 - sum(shares))):
            assert abs((parts[mine] == part).sum() - mine.sum() * share) < 1 + 1e-9
            for rows in strata_of(label[mine], Cells(cells.codes[mine], cells.names)):
                assert abs((parts[mine][rows] == part).sum() - len(rows) * share) < 3
    np.testing.assert_array_equal(parts, client_parts(client, label, cells, spec, seed))


def test_default_shares_stay_within_one_row_in_large_strata():
    rng = np.random.default_rng(0)
    label, codes, client = rng.integers(2, size=20_000), rng.integers(4, size=20_000), rng.integers(10, size=20_000)
    cells = Cells(codes, tuple("abcd"))
    parts = client_parts(client, label, cells, SplitSpec(), seed=0)
    for c in range(10):
        for rows in strata_of(label[client == c], Cells(codes[client == c], cells.names)):
            counts = np.bincount(parts[client == c][rows], minlength=3)
            assert np.abs(counts - len(rows) * np.array([0.7, 0.1, 0.2])).max() < 2


def test_every_row_has_the_same_chance():
    label = np.array([0] * 15 + [1] * 2)
    cells = Cells(np.array([0] * 10 + [1] * 7), ("a", "b"))
    client = np.zeros(17, dtype=int)
    tested = np.zeros(17)
    for seed in range(3_000):
        tested += client_parts(client, label, cells, SplitSpec(), seed) == TEST
    np.testing.assert_allclose(tested / 3_000, 3 / 17, atol=0.03)


def test_other_seeds_give_other_splits():
    label, cells = np.arange(500) % 2, Cells(np.arange(500) % 3, ("a", "b", "c"))
    client = np.zeros(500, dtype=int)
    assert (global_test(label, cells, SplitSpec(), 0) != global_test(label, cells, SplitSpec(), 1)).any()
    one, other = (client_parts(client, label, cells, SplitSpec(), seed) for seed in (0, 1))
    assert (one != other).any()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"test": 1.0}, "test"),
        ({"validation": -0.1}, "validation"),
        ({"validation": 0.5, "local_test": 0.5}, "validation . local_test"),
        ({"folds": 1}, "folds"),
        ({"folds": 5, "fold": 5}, "fold"),
        ({"fold": 1}, "fold"),
    ],
)
def test_impossible_shares(settings, name):
    with pytest.raises(GlocalfairError, match=f"'{name}' must be"):
        SplitSpec(**settings)


def test_a_seed_of_its_own_fixes_the_folds():
    label, cells = np.arange(200) % 2, Cells(np.zeros(200, dtype=int), ("all",))
    fixed = [global_test(label, cells, SplitSpec(folds=5, fold=1, seed=7), seed) for seed in (0, 1)]
    np.testing.assert_array_equal(*fixed)
    own = [global_test(label, cells, SplitSpec(folds=5, fold=1), seed) for seed in (0, 1)]
    assert (own[0] != own[1]).any()
