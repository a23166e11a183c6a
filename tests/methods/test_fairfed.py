"""FairFed: the published per-client form, two rounds by hand, one-group clients, sampling, negative weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from glocalfair.methods.fairfed import FairFed, gaps, worst_pair
from glocalfair.methods.reweighing import Reweighing
from glocalfair.types import ServerState
from tests.federations import context, enrolled, held, replied, seen, sent


def counted(size: list[float], positive: list[float], correct: int) -> dict[str, object]:
    return {"group_size": np.array(size), "group_positive": np.array(positive), "correct": correct}


@st.composite
def clients(draw: st.DrawFn) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Draw labels, groups and predictions of some clients, one-group ones among them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.integers(1, 20), min_size=1, max_size=5))
    chances = [draw(st.sampled_from([0.0, 0.3, 1.0])) for _ in sizes]
    return [
        (rng.integers(2, size=n), (rng.random(n) < c).astype(int), rng.integers(2, size=n))
        for n, c in zip(sizes, chances, strict=True)
    ]


def tables(rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> tuple[np.ndarray, ...]:
    """Count with a plain loop."""
    size = np.array([[((a == g) & (y == 1)).sum() for g in (0, 1)] for y, a, p in rows], float)
    positive = np.array([[((a == g) & (y == 1) & (p == 1)).sum() for g in (0, 1)] for y, a, p in rows], float)
    correct = np.array([(y == p).sum() for y, a, p in rows], float)
    return positive, size, correct, np.array([len(y) for y, a, p in rows], float)


@given(clients())
def test_global_gap_is_the_pooled_difference_and_the_published_sum(rows):
    positive, size, correct, examples = tables(rows)
    y, a, p = (np.concatenate(part) for part in zip(*rows, strict=True))
    assume(((y == 1) & (a == 0)).any() and ((y == 1) & (a == 1)).any())
    pooled = p[(y == 1) & (a == 0)].mean() - p[(y == 1) & (a == 1)].mean()
    assert gaps(positive, size, correct, examples).overall == pytest.approx(pooled)
    # Σ_k (n_k/n) m_k with m_k = Σ_a ± TPR_{a,k} · P(A=a,Y=1|k) / P(A=a,Y=1), a term for each group that k has.
    n = len(y)
    total = 0.0
    for yk, ak, pk in rows:
        for g, sign in ((0, 1), (1, -1)):
            mine = (yk == 1) & (ak == g)
            if mine.any():
                m = pk[mine].mean() * mine.mean() / ((y == 1) & (a == g)).mean()
                total += sign * len(yk) / n * m
    assert total == pytest.approx(pooled)


@given(clients(), st.floats(0, 100))
def test_the_sum_of_omega_never_changes(rows, beta):
    positive, size, correct, examples = tables(rows)
    names = tuple(f"c{k}" for k in range(len(rows)))
    method = FairFed(beta=beta)
    state = ServerState(np.zeros(1))
    infos = {c: method.enrol(held([0] * int(n), [0] * int(n), c)) for c, n in zip(names, examples, strict=True)}
    state = method.init(np.zeros(1), infos)
    for number in (1, 2, 3):
        updates = [
            sent(c, [0.0], int(n), counted(s, p, int(r)))
            for c, n, s, p, r in zip(names, examples, size, positive, correct, strict=True)
        ][number % 2 :] or [sent(names[0], [0.0], int(examples[0]), counted(size[0], positive[0], int(correct[0])))]
        state, log = method.server_round(state, updates, context(names, number, 1))
        assert np.asarray(state.values["omega"]).sum() == pytest.approx(1.0, abs=1e-9 * (1 + beta))
        assert sum(log["coefficients"].values()) == pytest.approx(1.0)


# Two clients with both groups, one with group 1 alone; on label 1 the counts are in the comments.
A = held([1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 0, 1], "a")  # 2 and 2, predicted positive 1 and 2
B = held([1, 1, 1, 0], [0, 0, 1, 1], "b")  # 2 and 1, 2 and 0
C = held([1, 0], [1, 1], "c")  # 0 and 1, 0 and 1
LOGITS = {"a": [1.0, -1.0, 1.0, 1.0, -1.0, -1.0], "b": [1.0, 1.0, -1.0, 1.0], "c": [1.0, 1.0]}


def test_two_rounds_by_hand():
    method = FairFed(beta=0.5)
    state = method.init(np.zeros(3), enrolled(method, A, B, C))
    f_global = 3 / 4 - 3 / 4
    f_a, f_b = 1 / 2 - 2 / 2, 2 / 2 - 0 / 1
    accuracy, accuracy_c = (5 + 2 + 1) / 12, 1 / 2
    delta = np.array([abs(f_a - f_global), abs(f_b - f_global), abs(accuracy_c - accuracy)])
    omega = np.array([6, 4, 2]) / 12
    for number in (1, 2):
        updates = [
            replied(method, seen(data, LOGITS[data.name]), np.eye(3)[k], state) for k, data in enumerate((A, B, C))
        ]
        assert updates[0].payload["correct"] == 5
        np.testing.assert_array_equal(updates[0].payload["group_size"], [2, 2])
        np.testing.assert_array_equal(updates[0].payload["group_positive"], [1, 2])
        state, log = method.server_round(state, updates, context(("a", "b", "c"), number, 3))
        omega = omega - 0.5 * (delta - delta.mean())
        np.testing.assert_allclose(state.values["omega"], omega)
        np.testing.assert_allclose(state.weights, np.maximum(omega, 0) / np.maximum(omega, 0).sum())
        assert (log["gap"], log["pair"], log["by_accuracy"]) == (f_global, (0, 1), 1)
    # In round 2 b is below 0: kept so, and without a say.
    assert omega[1] < 0 and state.weights[1] == 0


def test_statistical_parity_counts_all_labels():
    method = FairFed(metric="spd")
    state = method.init(np.zeros(1), enrolled(method, B))
    update = replied(method, seen(B, LOGITS["b"]), np.zeros(1), state)
    np.testing.assert_array_equal(update.payload["group_size"], [2, 2])
    np.testing.assert_array_equal(update.payload["group_positive"], [2, 1])


def test_the_first_preprints_rule_has_no_memory():
    method = FairFed(beta=2.0, variant="exp")
    state = method.init(np.zeros(2), enrolled(method, A, B))
    for number in (1, 2):
        updates = [replied(method, seen(d, LOGITS[d.name]), np.eye(2)[k], state) for k, d in enumerate((A, B))]
        state, _ = method.server_round(state, updates, context(("a", "b"), number))
        gap = 3 / 4 - 2 / 3
        mass = np.array([0.6 * np.exp(-2 * abs(-0.5 - gap)), 0.4 * np.exp(-2 * abs(1 - gap))])
        np.testing.assert_allclose(state.weights, mass / mass.sum())


def test_sampling_uses_the_participants_alone_and_leaves_the_others():
    method = FairFed(beta=0.5)
    state = method.init(np.zeros(2), enrolled(method, A, B, C))
    updates = [replied(method, seen(d, LOGITS[d.name]), np.eye(2)[k], state) for k, d in enumerate((A, B))]
    state, log = method.server_round(state, updates, context(("a", "b")))
    gap = 3 / 4 - 2 / 3
    assert log["gap"] == pytest.approx(gap)
    delta = np.array([abs(-0.5 - gap), abs(1 - gap)])
    omega = np.array([0.5, 1 / 3]) - 0.5 * (delta - delta.mean())
    np.testing.assert_allclose(state.values["omega"], [*omega, 1 / 6])
    np.testing.assert_allclose(state.weights, omega / omega.sum())


def test_one_group_clients_are_judged_by_accuracy_alone():
    # All one-group, as when clients are the groups: FairFed then knows nothing of fairness.
    d = held([1, 1], [0, 0], "d")
    method = FairFed(beta=1.0)
    state = method.init(np.zeros(2), enrolled(method, C, d))
    updates = [
        replied(method, seen(C, [1.0, 1.0]), np.zeros(2), state),
        replied(method, seen(d, [1.0, 1.0]), np.ones(2), state),
    ]
    _, log = method.server_round(state, updates, context(("c", "d")))
    assert log["by_accuracy"] == 2
    assert log["coefficients"] == {"c": pytest.approx(0.5), "d": pytest.approx(0.5)}


def test_all_negative_weights_fall_back_to_sizes():
    method = FairFed()
    state = method.init(np.zeros(2), enrolled(method, A, B, C))
    low = ServerState(state.weights, {**state.values, "omega": np.array([-5.0, -5.0, 11.0])})
    updates = [replied(method, seen(d, LOGITS[d.name]), np.zeros(2), low) for d in (A, B)]
    after, log = method.server_round(low, updates, context(("a", "b")))
    assert log["coefficients"] == {"a": pytest.approx(0.6), "b": pytest.approx(0.4)}
    assert np.asarray(after.values["omega"]).sum() == pytest.approx(1.0)


def test_three_groups_compare_the_worst_pair():
    size = np.array([[4.0, 4.0, 4.0], [4.0, 0.0, 4.0]])
    positive = np.array([[2.0, 4.0, 1.0], [2.0, 0.0, 3.0]])
    found = gaps(positive, size, np.array([6.0, 4.0]), np.array([12.0, 8.0]))
    # Pooled rates 0.5, 1.0, 0.5: groups 0 and 1, which the second client cannot compare.
    assert found.pair == (0, 1) and found.overall == -0.5
    np.testing.assert_allclose(found.distance, [0.0, abs(4 / 8 - 10 / 20)])
    assert found.by_accuracy == 1


def test_a_pair_needs_two_defined_rates():
    assert worst_pair(np.array([np.nan, 0.3])) is None
    assert worst_pair(np.array([0.3, 0.3, 0.3])) == (0, 1)


def test_local_debiasing_is_reweighing_or_nothing():
    state = ServerState(np.zeros(1))
    received = seen(A, LOGITS["a"])
    sending = FairFed().broadcast(state, "a", context())
    weight = FairFed().plan(sending, received, {})[0].sample_weight
    np.testing.assert_array_equal(weight, Reweighing().plan(sending, received, {})[0].sample_weight)
    assert FairFed(local_debias="none").plan(sending, received, {})[0].sample_weight is None
