import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glocalfair.errors import GlocalfairError
from glocalfair.local.constraints import FNR, FPR, Constraint, PositiveRate, compile_constraints
from glocalfair.types import Attribute

ATTRIBUTES = (Attribute("sex", ("F", "M")), Attribute("race", ("A", "B", "C")))


def sample(seed: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    groups = np.stack([rng.integers(0, len(a.values), n) for a in ATTRIBUTES], 1)
    return rng.integers(0, 2, n), rng.integers(0, 2, n), groups


def members_of(groups: np.ndarray) -> np.ndarray:
    columns = [np.ones(len(groups))]
    columns += [(groups[:, i] == v).astype(float) for i, a in enumerate(ATTRIBUTES) for v in range(len(a.values))]
    return np.stack(columns, 1)


def table(y: np.ndarray, weight: np.ndarray, groups: np.ndarray) -> np.ndarray:
    members = members_of(groups)
    return np.stack([((y == label) * weight) @ members for label in (0, 1)])


def rate(kind: str, y: np.ndarray, predicted: np.ndarray, mask: np.ndarray) -> float:
    """The rate as anybody would write it."""
    if kind == "fnr":
        rows = mask & (y == 1)
        return float(np.mean(predicted[rows] == 0)) if rows.any() else float("nan")
    rows = mask & (y == 0) if kind == "fpr" else mask
    return float(np.mean(predicted[rows] == 1)) if rows.any() else float("nan")


def by_hand(
    constraint: Constraint, y: np.ndarray, predicted: np.ndarray, groups: np.ndarray, reference: float | None
) -> list[float]:
    values = []
    for i, attribute in enumerate(ATTRIBUTES):
        if constraint.attributes is not None and attribute.name not in constraint.attributes:
            continue
        for v in range(len(attribute.values)):
            own = rate(constraint.rate, y, predicted, groups[:, i] == v)
            if constraint.mode == "absolute":
                values.append(own - constraint.tau)
                continue
            base = rate(constraint.rate, y, predicted, np.full(len(y), True)) if reference is None else reference
            values += [own - base - constraint.tau, base - own - constraint.tau]
    return values


@given(
    st.integers(0, 10_000),
    st.integers(1, 40),
    st.sampled_from([FNR, FPR, PositiveRate]),
    st.sampled_from(["deviation", "absolute"]),
    st.sampled_from([None, ("sex",)]),
    st.sampled_from([None, 0.3]),
)
def test_compiled_violation_equals_the_rates(seed, n, kind, mode, attributes, reference) -> None:  # type: ignore[no-untyped-def]
    y, predicted, groups = sample(seed, n)
    constraint = kind(0.05, mode, attributes)
    references = None if reference is None else {kind.rate: reference}
    compiled = compile_constraints([constraint], table(y, np.ones(n), groups), ATTRIBUTES, references)
    expected = by_hand(constraint, y, predicted, groups, reference)
    np.testing.assert_allclose(compiled.violation(table(y, predicted, groups)), expected, atol=1e-12)


def test_one_group_client_has_nothing_to_hold_against_itself() -> None:
    y, predicted, groups = sample(3, 30)
    groups[:] = 0
    compiled = compile_constraints([FNR(0.1), FPR(0.08)], table(y, np.ones(30), groups), ATTRIBUTES)
    # The group is the overall: every example's coefficients cancel, and only −τ is left.
    per_example = np.einsum("myc,bc->mby", compiled.coefficient, members_of(groups))
    np.testing.assert_allclose(per_example, 0, atol=1e-15)
    assert (np.nan_to_num(compiled.violation(table(y, predicted, groups)), nan=-1) < 0).all()


def test_shrinkage_weakens_small_groups() -> None:
    y, predicted, groups = sample(5, 40)
    counts = table(y, np.ones(40), groups)
    plain = compile_constraints([FPR(0.0)], counts, ATTRIBUTES, {"fpr": 0.2})
    shrunk = compile_constraints([FPR(0.0)], counts, ATTRIBUTES, {"fpr": 0.2}, shrinkage=7.0)
    size = np.repeat(counts[0, 1:], 2)
    prediction = table(y, predicted, groups)
    np.testing.assert_allclose(shrunk.violation(prediction), plain.violation(prediction) * size / (size + 7))


@pytest.mark.parametrize("bad", [{"tau": -0.1}, {"tau": float("nan")}, {"tau": 0.1, "mode": "relative"}])
def test_bad_values_are_refused(bad: dict) -> None:  # type: ignore[type-arg]
    with pytest.raises(GlocalfairError, match="must be"):
        FNR(**bad)


@given(st.integers(0, 10_000), st.sampled_from(["deviation", "absolute"]), st.booleans(), st.sampled_from([0.0, 3.0]))
def test_several_clients_compile_to_what_each_does(seed: int, mode: str, given_rates: bool, shrinkage: float) -> None:
    samples = [sample(seed + k, n) for k, n in enumerate((1, 7, 40))]
    counts = np.array([table(y, np.ones(len(y)), groups) for y, _, groups in samples])
    constraints = [kind(0.05, mode, None) for kind in (FNR, FPR, PositiveRate)]
    rates = np.random.default_rng(seed).random((3, 3))
    names = ("fnr", "fpr", "positive_rate")
    together = dict(zip(names, rates, strict=True)) if given_rates else None
    found = compile_constraints(constraints, counts, ATTRIBUTES, together, shrinkage)
    for k, own in enumerate(counts):
        references = dict(zip(names, rates[:, k].tolist(), strict=True)) if given_rates else None
        alone = compile_constraints(constraints, own, ATTRIBUTES, references, shrinkage)
        assert alone.names == found.of(k).names
        for field in ("tau", "coefficient", "offset", "defined"):
            np.testing.assert_array_equal(getattr(alone, field), getattr(found.of(k), field))
