"""Partitions: complete, within their shares, equal for equal seeds, and clear when they cannot be drawn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glocalfair.data.cells import Cells, attribute_cells
from glocalfair.data.partition import PARTITIONS, PartitionSpec, Rows, assign
from glocalfair.errors import GlocalfairError
from glocalfair.types import Attribute

DRAWN = [name for name, entry in PARTITIONS.items() if entry.random]


@st.composite
def some_rows(draw):
    n, cells = draw(st.integers(1, 300)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = np.unique(rng.integers(cells, size=n), return_inverse=True)[1]
    names = tuple(f"cell {i}" for i in range(codes.max() + 1))
    owner = rng.integers(3, size=n)
    return Rows(rng.integers(2, size=n), Cells(codes, names), owner, ("x", "y", "z"))


@pytest.mark.parametrize("name", sorted(PARTITIONS))
@settings(max_examples=50, deadline=None)
@given(rows=some_rows(), clients=st.integers(1, 12), alpha=st.sampled_from([0.01, 0.5, 100.0]), seed=st.integers(0, 99))
def test_each_row_has_at_most_one_client_and_equal_seeds_agree(name, rows, clients, alpha, seed):
    mean = max(len(rows) / clients / 2, 1e-3)
    spec = PartitionSpec(name, clients=clients, alpha=alpha, min_rows=0, mean=mean, variance=mean)
    drawn = assign(rows, spec, seed)
    assert drawn.codes.shape == (len(rows),)
    assert drawn.codes.min() >= -1 and drawn.codes.max() < len(drawn.names) == len(set(drawn.names))
    if not name.startswith("sizes"):
        assert drawn.codes.min() >= 0
    np.testing.assert_array_equal(drawn.codes, assign(rows, spec, seed).codes)


def adult_like(n: int = 4_000) -> Rows:
    rng = np.random.default_rng(0)
    groups = (rng.random((n, 2)) < (0.67, 0.85)).astype(int)
    attributes = (Attribute("sex", ("Female", "Male")), Attribute("race", ("Non-White", "White")))
    return Rows(rng.integers(2, size=n), attribute_cells(groups, attributes))


@pytest.mark.parametrize("name", DRAWN)
def test_other_seeds_give_other_partitions(name):
    spec = PartitionSpec(name, clients=5, min_rows=0, mean=500)
    one, other = (assign(adult_like(), spec, seed).codes for seed in (0, 1))
    assert (one != other).any()


def test_by_group_is_the_papers_four_clients():
    rows = adult_like()
    drawn = assign(rows, PartitionSpec(), seed=0)
    assert drawn.names == ("Female·Non-White", "Female·White", "Male·Non-White", "Male·White")
    for code in range(4):
        assert len(set(rows.cells.codes[drawn.codes == code])) == 1


def test_iid_sizes_differ_by_at_most_one():
    sizes = assign(adult_like(1_003), PartitionSpec("iid", clients=10), seed=0).sizes()
    assert sorted(set(sizes)) == [100, 101]


def test_power_law_shares_are_those_of_the_ranks():
    rows, alpha = adult_like(), 0.7
    drawn = assign(rows, PartitionSpec("power_law", clients=5, alpha=alpha, min_rows=0), seed=3)
    shares = np.arange(1, 6) ** (-1 / alpha)
    for cell in range(4):
        mine = rows.cells.codes == cell
        counts = np.sort(np.bincount(drawn.codes[mine], minlength=5))[::-1]
        np.testing.assert_allclose(counts, mine.sum() * shares / shares.sum(), atol=1)


def test_dirichlet_shares_have_the_right_mean_and_variance():
    rows, clients, alpha = adult_like(2_000), 4, 0.5
    spec = PartitionSpec("dirichlet", clients=clients, alpha=alpha, min_rows=0)
    shares = np.array(
        [
            np.bincount(drawn[rows.cells.codes == 3], minlength=clients) / (rows.cells.codes == 3).sum()
            for drawn in (assign(rows, spec, seed).codes for seed in range(400))
        ]
    )
    np.testing.assert_allclose(shares.mean(axis=0), 1 / clients, atol=0.05)
    variance = (1 / clients) * (1 - 1 / clients) / (clients * alpha + 1)
    np.testing.assert_allclose(shares.var(axis=0), variance, rtol=0.25)


@pytest.mark.parametrize("name", ["dirichlet", "power_law"])
def test_large_alpha_is_nearly_iid(name):
    rows = adult_like()
    drawn = assign(rows, PartitionSpec(name, clients=4, alpha=1e6), seed=0)
    for cell in range(4):
        mine = rows.cells.codes == cell
        np.testing.assert_allclose(np.bincount(drawn.codes[mine]) / mine.sum(), 0.25, atol=0.01)


def test_sizes_have_the_given_mean_and_variance_and_the_rest_is_unused():
    rows = adult_like(200_000)
    sizes = assign(rows, PartitionSpec("sizes", clients=200, mean=900, variance=250), seed=0).sizes()
    assert abs(sizes.mean() - 900) < 4 and 170 < sizes.var() < 340
    exact = assign(rows, PartitionSpec("sizes", clients=200, mean=900, variance=0), seed=0)
    assert set(exact.sizes()) == {900} and (exact.codes == -1).sum() == 20_000


def test_sizes_shrink_when_a_draw_wants_more_than_there_is():
    spec = PartitionSpec("sizes", clients=2, mean=50, variance=900, min_rows=0)
    totals = [assign(adult_like(100), spec, seed).sizes().sum() for seed in range(30)]
    assert max(totals) == 100 and min(totals) < 100


def test_a_failed_draw_is_drawn_again():
    rows = adult_like(400)
    # Some first draws of these seeds leave a client with less than 30 rows; all end with enough.
    spec = PartitionSpec("dirichlet", clients=4, alpha=0.5, min_rows=30)
    first = PartitionSpec("dirichlet", clients=4, alpha=0.5, min_rows=0)
    assert min(assign(rows, first, seed).sizes().min() for seed in range(20)) < 30
    assert min(assign(rows, spec, seed).sizes().min() for seed in range(20)) >= 30


def test_the_error_names_client_rows_and_the_way_out():
    spec = PartitionSpec("dirichlet", clients=20, alpha=0.01, draws=5)
    text = r"client 'client-\d\d' holds \d+ rows in the best of 5 draws, fewer than 'min_rows' \(20\)\. "
    with pytest.raises(GlocalfairError, match=text + "Use fewer 'clients', a larger 'alpha' or a smaller 'min_rows'"):
        assign(adult_like(), spec, seed=0)
    with pytest.raises(GlocalfairError, match=r"client 'client-\d\d' holds 5 rows, fewer than"):
        assign(adult_like(100), PartitionSpec("iid", clients=20), seed=0)
    with pytest.raises(GlocalfairError, match=r"'by_group': client '.*' holds \d+ rows, .* Use a smaller 'min_rows'\."):
        assign(adult_like(100), PartitionSpec("by_group"), seed=0)
    with pytest.raises(GlocalfairError, match="'mean' must be at most rows / clients, here 100 / 4"):
        assign(adult_like(100), PartitionSpec("sizes"), seed=0)
    with pytest.raises(GlocalfairError, match="needs data with a client column"):
        assign(adult_like(100), PartitionSpec("by_column"), seed=0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("clients", 0),
        ("alpha", 0.0),
        ("alpha", float("nan")),
        ("min_rows", -1),
        ("draws", 0),
        ("mean", -1.0),
        ("variance", -1.0),
    ],
)
def test_impossible_settings(field, value):
    with pytest.raises(GlocalfairError, match=f"'{field}' must be"):
        PartitionSpec(**{field: value})


def test_unknown_partition():
    with pytest.raises(GlocalfairError, match="Did you mean 'dirichlet'"):
        PartitionSpec("dirichlett")


def test_many_combinations_of_values_are_numbered_by_those_that_occur():
    attributes = tuple(Attribute(f"a{i}", tuple(f"{i}{j}" for j in range(10))) for i in range(8))
    groups = np.random.default_rng(0).integers(10, size=(50, 8))
    cells = attribute_cells(groups, attributes)
    for row, code in zip(groups, cells.codes, strict=True):
        assert cells.names[code] == "·".join(f"{i}{j}" for i, j in enumerate(row))
