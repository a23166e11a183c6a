"""GLocalFair: the anchored dual and the server's half by hand, the ablations, and what really leaves a client."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from glocalfair.errors import GlocalfairError
from glocalfair.local import anchored
from glocalfair.local.constraints import FNR, FPR, PositiveRate
from glocalfair.methods.fedavg import FedAvg
from glocalfair.methods.glocalfair import GLocalFair, GLocalFairPaper
from glocalfair.methods.roster import array
from glocalfair.report.text import constraints
from glocalfair.types import Attribute, Broadcast, ClientData, ClientUpdate, ServerState, Stage, Trained
from tests.federations import context, drawn, held, play, seen, sent, simulator, start

DATA = held([1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0, 1, 1])
LOGITS = [-1.0, 1.0, 1.0, 1.0, -1.0, -1.0, 1.0, -1.0]
"""Group 0 misses 1 of 2 positives and accepts 0 of 2 negatives; group 1 misses none and accepts 1 of 2."""


def known(fnr: float, fpr: float) -> tuple[Broadcast, dict[str, Any]]:
    """A reference for a model on which this client's own rates were what they are now."""
    return Broadcast(np.zeros(3), {"reference": np.array([fnr, fpr, 0.5])}), {"overall": np.array([0.25, 0.25, 0.5])}


# ---------------------------------------------------------------------------------------------- client


def test_one_dual_step_by_hand() -> None:
    method = GLocalFair(dual_lr=0.5, dual_decay=0.0, shrinkage=0.0, clip=9.0, warmup=0)
    broadcast, state = known(0.25, 0.25)
    (stage,) = method.plan(broadcast, seen(DATA, LOGITS), state)
    # FNR: group 0 is .5 − .25 above, group 1 .25 below; FPR the other way round. Unit: 2√(.25·.75) = √.75.
    step = 0.5 * 0.25 / np.sqrt(0.75)
    np.testing.assert_allclose(stage.notes["pressures"], [[step, -step], [-step, step]])
    # Positives of group 0 are pushed up (negative coefficient), its negatives too; group 1 is pushed down.
    np.testing.assert_allclose(stage.probability_coefficient, np.array([-1, -1, 1, 1, -1, -1, 1, 1]) * step)


def test_leak_shrinkage_dead_zone_and_clip() -> None:
    broadcast, state = known(0.25, 0.25)
    state["pressures"] = np.full((2, 2), 0.4)
    leaky = GLocalFair(dual_lr=0.0, dual_decay=0.25, warmup=0)
    np.testing.assert_allclose(leaky.plan(broadcast, seen(DATA, LOGITS), state)[0].notes["pressures"], 0.3)
    state["pressures"] = np.zeros((2, 2))
    base = GLocalFair(dual_lr=1.0, dual_decay=0.0, shrinkage=0.0, clip=9.0, warmup=0)

    def first(method: GLocalFair) -> float:
        return float(np.asarray(method.plan(broadcast, seen(DATA, LOGITS), state)[0].notes["pressures"])[0, 0])

    full = first(base)
    assert first(replace(base, shrinkage=2.0)) == pytest.approx(full / 2)
    assert first(replace(base, tau_fnr=0.2)) == pytest.approx(full * 0.05 / 0.25)
    assert first(replace(base, tau_fnr=0.3)) == 0
    assert first(replace(base, clip=0.1)) == pytest.approx(0.1)


def test_short_runs_forget_faster() -> None:
    broadcast, state = known(0.25, 0.25)
    state["pressures"] = np.ones((2, 2))
    for rounds, left in ((60, 0.96), (30, 0.84), (10, 0.8)):
        received = replace(seen(DATA, LOGITS), rounds=rounds)
        (stage,) = GLocalFair(dual_lr=0.0, warmup=0.0).plan(broadcast, received, state)
        np.testing.assert_allclose(stage.notes["pressures"], left)


def test_a_change_that_all_groups_share_is_no_violation() -> None:
    """The reference is one report old; it moves along with the client's own overall rate."""
    method = GLocalFair(dual_lr=1.0, dual_decay=0.0, shrinkage=0.0, warmup=0)
    # When this client reported last, it and the federation accepted nobody; now its overall FNR is .25, FPR .25.
    old = {"overall": np.array([1.0, 0.0, 0.0])}
    stale = Broadcast(np.zeros(3), {"reference": np.array([1.0, 0.0, 0.0])})
    moved = method.plan(stale, seen(DATA, LOGITS), old)[0].notes["pressures"]
    fresh = method.plan(*_swap(known(0.25, 0.25)))[0].notes["pressures"]
    np.testing.assert_allclose(moved, fresh)


def _swap(pair: tuple[Broadcast, dict[str, Any]]) -> tuple[Any, ...]:
    return pair[0], seen(DATA, LOGITS), pair[1]


def test_nothing_is_asked_before_the_reference_is_known_or_during_warm_up() -> None:
    for broadcast, state, method in (
        (Broadcast(np.zeros(3)), {}, GLocalFair(warmup=0)),
        (*known(0.2, 0.2), GLocalFair(warmup=1.0)),
    ):
        (stage,) = method.plan(broadcast, replace(seen(DATA, LOGITS), rounds=10), state)
        np.testing.assert_array_equal(stage.probability_coefficient, 0)


def test_local_reference_cannot_move_a_one_group_client() -> None:
    alone = held([1, 1, 0, 0], [1, 1, 1, 1])
    method = GLocalFair(reference="local", warmup=0, dual_lr=5.0)
    (stage,) = method.plan(Broadcast(np.zeros(3)), seen(alone, [1.0, -1.0, 1.0, -1.0]), {})
    np.testing.assert_allclose(stage.probability_coefficient, 0, atol=1e-15)
    anchored_to_targets = GLocalFair(reference="targets", targets=(0.1, 0.1, 0.5), warmup=0)
    (stage,) = anchored_to_targets.plan(Broadcast(np.zeros(3)), seen(alone, [1.0, -1.0, 1.0, -1.0]), {})
    assert (np.asarray(stage.probability_coefficient)[:2] < 0).all(), "FNR .5 is above its target: accept more"
    assert (np.asarray(stage.probability_coefficient)[2:] > 0).all(), "FPR .5 is above its target: accept less"


@given(st.integers(0, 1000), st.sampled_from([FNR, FPR, PositiveRate]), st.booleans())
def test_coefficients_are_the_gradient_of_the_lagrangian(seed: int, kind: Any, local: bool) -> None:
    """Σ_g λ_g (rate_g − reference) with soft predictions, differentiated numerically."""
    rng = np.random.default_rng(seed)
    n = 12
    data = held(rng.integers(0, 2, n).tolist(), rng.integers(0, 3, n).tolist(), values=3)
    members = np.eye(3)[data.groups[:, 0]]
    constraint, pressure = kind(0.0), rng.normal(size=3)
    rows = np.isin(data.y, constraint.labels)
    if not rows.any():
        return
    size = rows @ members
    counts, asked = anchored.counted([data], [np.zeros(n)]), anchored.asked((constraint,), data.attributes)
    multiplier = anchored.multipliers(asked, pressure[None, None], counts)[0, 0]

    def lagrangian(soft: np.ndarray) -> float:
        positive = (rows * soft) @ members
        value = sum(
            multiplier[g] * (constraint.constant + constraint.sign * positive[g] / size[g]) for g in range(3) if size[g]
        )
        overall = constraint.constant + constraint.sign * (rows * soft).sum() / rows.sum()
        return value - (multiplier.sum() * overall if local else 0.0)

    soft = rng.random(n)
    slope = np.array([(lagrangian(soft + e) - lagrangian(soft - e)) / 2e-4 for e in np.eye(n) * 1e-4])
    (ours,) = anchored.coefficients(asked, pressure[None, None], counts, np.inf, moving_reference=local)
    np.testing.assert_allclose(ours / n, slope, atol=1e-9)


def test_a_method_that_builds_on_this_one_is_asked_for_its_own_plan() -> None:
    class Standing(GLocalFair):
        """Sends back what it received."""

        def plan(self, *given: Any) -> tuple[Stage, ...]:
            return tuple(replace(stage, lr_scale=0.0) for stage in super().plan(*given))

    sim = simulator(Standing(), drawn(2))
    state, _ = play(sim, 2)
    np.testing.assert_allclose(state.server.weights, start(sim).server.weights, rtol=1e-12)


def test_a_client_without_validation_rows_leaves_the_others_theirs() -> None:
    method = GLocalFair(warmup=0, tau_fnr=0.1)
    broadcast, state = known(0.25, 0.25)
    whole = replace(seen(DATA, LOGITS), validation=DATA, validation_logits=np.array(LOGITS))
    (one,), (two,) = method.plans([(broadcast, whole, state), (broadcast, seen(DATA, LOGITS), state)])
    found, undefined = (stage.notes["constraints"]["violation"] for stage in (one, two))
    np.testing.assert_allclose(found[:2], [0.15, 0.15])
    assert undefined == [None] * 4


@pytest.mark.parametrize("code", [-1, 2])
def test_a_group_that_does_not_exist_is_refused(code: int) -> None:
    wrong = replace(DATA, groups=np.where(DATA.groups == 1, code, DATA.groups))
    with pytest.raises(GlocalfairError, match="'groups' must be codes from 0 to 1 for 'a'"):
        GLocalFair().plan(Broadcast(np.zeros(3)), seen(wrong, LOGITS), {})


def test_codes_of_few_bits_count_alike() -> None:
    """The columns of a second attribute are numbered behind those of the first, beyond what a byte holds."""
    wide, narrow = (Attribute(name, tuple(map(str, range(values)))) for name, values in (("a", 250), ("b", 200)))
    codes = np.array([[249, 199], [0, 0], [7, 199]])
    data = ClientData("k", np.array([1, 0, 1]), codes, (wide, narrow))
    logits = [np.array([1.0, 1.0, -1.0])]
    expected = anchored.counted([data], logits)
    found = anchored.counted([replace(data, groups=codes.astype(np.uint8))], logits)
    np.testing.assert_array_equal(found.accepted, expected.accepted)
    assert expected.examples[0, 1, 1 + 250 + 199] == 2


@pytest.mark.parametrize("values", [(2, 3), (2, 200), (300,), ()])
def test_predictions_are_counted_by_client_label_and_group(values: tuple[int, ...]) -> None:
    """One row after the other, whether there are few combinations of groups or many."""
    rng = np.random.default_rng(len(values))
    attributes = tuple(Attribute(f"a{k}", tuple(map(str, range(size)))) for k, size in enumerate(values))
    sizes = [40, 0, 7]
    data = [
        ClientData(f"k{n}", rng.integers(0, 2, n), np.stack([rng.integers(0, v, n) for v in (*values, 1)], 1)[:, :-1],
                   attributes)
        for n in sizes
    ]  # fmt: skip
    logits = [rng.normal(size=n) for n in sizes]
    found = anchored.counted(data, logits)
    examples = np.zeros((3, 2, 1 + sum(values)))
    accepted = np.zeros_like(examples)
    for k, (own, scores) in enumerate(zip(data, logits, strict=True)):
        for label, codes, score in zip(own.y, own.groups, scores, strict=True):
            columns = [0, *(1 + sum(values[:a]) + code for a, code in enumerate(codes))]
            examples[k, label, columns] += 1
            accepted[k, label, columns] += score > 0
    np.testing.assert_array_equal(found.examples, examples)
    np.testing.assert_array_equal(found.accepted, accepted)


@pytest.mark.parametrize("values", [2, 300])
def test_what_is_cut_out_is_what_it_would_be_by_itself(values: int) -> None:
    rng = np.random.default_rng(0)
    attributes = (Attribute("a", tuple(map(str, range(values)))), Attribute("b", ("x", "y")))
    y, groups = rng.integers(0, 2, 12), np.stack([rng.integers(0, values, 12), rng.integers(0, 2, 12)], 1)
    parts = ClientData("all", y, groups, attributes).cut(["k0", "k1", "k2"], [5, 0, 7])
    assert [(part.name, len(part)) for part in parts] == [("k0", 5), ("k1", 0), ("k2", 7)]
    for part, first in zip(parts, (0, 5, 5), strict=True):
        own = ClientData(part.name, y[first : first + len(part)], groups[first : first + len(part)], attributes)
        other = replace(part, y=1 - part.y)  # must not know what it was cut from
        for found, alone in ((part, own), (other, replace(own, y=1 - own.y))):
            (kinds, columns), (expected, own_columns) = found.combinations, alone.combinations
            np.testing.assert_array_equal(columns[:, kinds], own_columns[:, expected])


def test_constraints_side_by_side_are_those_one_by_one() -> None:
    """Every function on three constraints of different kinds gives what it gives on each of them alone."""
    rng = np.random.default_rng(0)
    data = [held(rng.integers(0, 2, 30).tolist(), rng.integers(0, 3, 30).tolist(), values=3) for _ in range(2)]
    counts = anchored.counted(data, [rng.normal(size=30) for _ in data])
    constraints = FNR(0.02), FPR(0.1, "absolute"), PositiveRate(0.0, attributes=())
    settings = anchored.DualSettings(lr=2.0, decay=0.1, shrinkage=5.0, clip=3.0)
    pressures, references = rng.normal(size=(2, 3, 3)), rng.random((2, 3))

    def moved(which: list[int]) -> tuple[np.ndarray, ...]:
        asked = anchored.asked(tuple(constraints[i] for i in which), data[0].attributes)
        measured = anchored.deviation(asked, counts, references[:, which])
        forces = np.stack(anchored.coefficients(asked, pressures[:, which], counts, np.inf, moving_reference=True))
        return (
            anchored.ascend(asked, pressures[:, which], measured, settings),
            anchored.violation(asked, measured.value),
            anchored.multipliers(asked, pressures[:, which], counts),
            forces[:, None],
        )

    *together, forces = moved([0, 1, 2])
    alone = [moved([i]) for i in range(3)]
    for number, found in enumerate(together):
        np.testing.assert_array_equal(found, np.concatenate([each[number] for each in alone], 1))
    np.testing.assert_allclose(forces, sum(each[-1] for each in alone), atol=1e-12)
    assert np.isnan(together[1][:, 2]).all() and (together[0][:, 1] >= 0).all()


def test_a_client_may_set_its_own_constraints() -> None:
    method = GLocalFair(
        tau_fpr=0.05,
        overrides={"k": {"constraints": ["fnr"], "tau_fnr": 0.02}},
        warmup=0,
        reference="targets",
        targets=(0.4, 0.07, 0.2),
    )
    (stage,) = method.plan(Broadcast(np.zeros(3)), seen(DATA, LOGITS), {})
    assert np.asarray(stage.notes["pressures"]).shape == (1, 2)
    other = replace(DATA, name="other")
    assert np.asarray(method.plan(Broadcast(np.zeros(3)), seen(other, LOGITS), {})[0].notes["pressures"]).shape == (
        2,
        2,
    )


def test_diagnostics_tell_limit_violation_and_multiplier() -> None:
    method = GLocalFair(tau_fnr=0.1, dual_lr=0.5, dual_decay=0.0, shrinkage=0.0, warmup=0)
    broadcast, state = known(0.25, 0.25)
    received = replace(seen(DATA, LOGITS), validation=DATA, validation_logits=np.array(LOGITS))
    plan = method.plan(broadcast, received, state)
    _, _, told = method.finish(plan, Trained((np.zeros(3),), 0.0, 1), received, state)
    first = constraints(told)[0]
    assert first["name"] == "fnr(a=a0)" and first["tau"] == 0.1
    assert first["violation"] == pytest.approx(0.25 - 0.1)
    # λ = p D / n with D = 2 positives of 8 examples.
    assert first["multiplier"] == pytest.approx(0.5 * 0.15 / np.sqrt(0.75) * 2 / 8)


def test_what_is_undefined_is_null_in_the_log() -> None:
    method, (broadcast, state) = GLocalFair(warmup=0), known(0.25, 0.25)
    received = seen(DATA, LOGITS)  # no validation part
    plan = method.plan(broadcast, received, state)
    _, _, told = method.finish(plan, Trained((np.zeros(3),), 0.0, 1), received, state)
    assert [constraint["violation"] for constraint in constraints(told)] == [None] * 4
    json.dumps(told, allow_nan=False)


def test_of_a_group_that_a_client_does_not_hold_nothing_is_told() -> None:
    method, (broadcast, state) = GLocalFair(warmup=0), known(0.25, 0.25)
    alike = replace(DATA, groups=np.zeros_like(DATA.groups))
    received = replace(seen(alike, LOGITS), validation=alike, validation_logits=np.array(LOGITS))
    (stage,) = method.plan(broadcast, received, state)
    assert [row["name"] for row in constraints(stage.notes)] == ["fnr(a=a0)", "fpr(a=a0)"]


def test_only_a_game_among_own_rates_does_without_the_received_model() -> None:
    assert GLocalFair().uses_received and GLocalFair(reference="local").uses_received
    assert GLocalFairPaper(reference="federation").uses_received and not GLocalFairPaper().uses_received
    _, records = play(simulator(GLocalFairPaper(warmup=0.5), drawn()), 4)
    played = [any(told["constraints"] for told in record["clients"].values()) for record in records]
    assert played == [False, False, True, True], "how many rounds there are is known all the same"


def test_paper_preset_trains_then_plays() -> None:
    plan = GLocalFairPaper().plan(Broadcast(np.zeros(3)), seen(DATA, LOGITS), {})
    assert plan[0].game is None and plan[1].game is not None
    assert plan[1].game.references is None
    assert [(c.rate, c.tau) for c in plan[1].game.constraints] == [("fnr", 0.1), ("fpr", 0.08)]


def test_absolute_limits_push_one_way_only() -> None:
    method = GLocalFair(constraints=("fpr",), mode="absolute", tau_fpr=0.3, warmup=0, dual_decay=0.0, shrinkage=0.0)
    broadcast, state = known(0.25, 0.25)
    (stage,) = method.plan(broadcast, seen(DATA, LOGITS), state)
    pressure = np.asarray(stage.notes["pressures"])[0]
    assert pressure[0] == 0, "an FPR of 0 is below the limit"
    assert pressure[1] > 0, "an FPR of .5 is above it"


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"constraints": ("fnrr",)}, "fnr"),
        ({"tau_fnr": -1.0}, "tau_fnr"),
        ({"gamma": -0.1}, "gamma"),
        ({"clusters": -2}, "clusters"),
        ({"reference": "targets", "targets": (0.1,)}, "targets"),
        ({"reference": "targets"}, "targets"),
        ({"reference": "targets", "targets": (5.0, 0.1, 0.1)}, "targets"),
        ({"overrides": {"x": {"tau": 0.1}}}, "tau_fnr"),
        ({"overrides": {"x": {"tau_fnr": "a"}}}, "tau_fnr"),
        ({"overrides": {"x": {"constraints": "fnr"}}}, "constraints"),
        ({"overrides": {"x": 3}}, "overrides.x"),
        ({"overrides": {"": None}}, "a table of keys and values"),
        ({"dual_decay": 1.5}, "dual_decay"),
        ({"window": 0}, "window"),
        ({"overrides": {"x": {"tau_fpr": -0.1}}}, "tau_fpr"),
        ({"proxy": "hinge"}, "proxy"),
    ],
)
def test_bad_settings_name_what_is_wrong(settings: dict[str, Any], names: str) -> None:
    with pytest.raises(GlocalfairError, match=names):
        GLocalFair(**settings)


def test_names_that_do_not_exist_are_refused_at_the_start() -> None:
    with pytest.raises(GlocalfairError, match=r"method.protect 'sexx'.*Did you mean 'a'|Known: a"):
        GLocalFair(protect=("sexx",)).enrol(DATA)
    method = GLocalFair(overrides={"nobody": {"tau_fnr": 0.1}})
    with pytest.raises(GlocalfairError, match=r"method\.overrides 'nobody'"):
        method.init(np.zeros(3), {"k": method.enrol(DATA)})


def test_a_clip_of_zero_is_none() -> None:
    broadcast, state = known(0.25, 0.25)
    free = GLocalFair(clip=0.0, dual_lr=100.0, warmup=0).plan(broadcast, seen(DATA, LOGITS), state)[0]
    assert np.abs(free.probability_coefficient).max() > 5


def test_limits_need_no_reference_and_send_no_totals() -> None:
    method = GLocalFair(mode="absolute", tau_fnr=0.2, tau_fpr=0.2, warmup=0)
    assert {d.key for d in method.discloses()} == {"weights", "examples"}
    (stage,) = method.plan(Broadcast(np.zeros(3)), seen(DATA, LOGITS), {})
    assert np.abs(stage.probability_coefficient).max() > 0
    update, _, _ = method.finish((stage,), Trained((np.zeros(3),), 0.0, 1), seen(DATA, LOGITS), {})
    assert update.payload == {}
    assert {d.key for d in GLocalFair(constraints=()).discloses()} == {"weights", "examples"}


# ---------------------------------------------------------------------------------------------- server

SPREAD = [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 4.0], [0.0, 0.0, 2.0, 2.0]
"""Gini 0, 3/4 and 1/2."""


def three(totals: bool = False) -> list[ClientUpdate]:
    payload = {"totals": np.array([1.0, 2.0, 3.0, 4.0])} if totals else {}
    return [sent(name, w, n, payload) for name, w, n in zip("abc", SPREAD, (10, 30, 20), strict=True)]


def share(method: GLocalFair, **values: Any) -> tuple[np.ndarray, dict[str, Any]]:
    state = ServerState(np.zeros(4), values)
    coefficients, log = method.coefficients(state, three(), context(("a", "b", "c"), size=4))
    return coefficients, dict(log)


def test_eq_18_by_hand() -> None:
    method = GLocalFair(gamma=2.0, reference="targets", targets=(0.4, 0.07, 0.2))
    coefficients, log = share(method)
    assert log["gini"] == {"a": 0.0, "b": 0.75, "c": 0.5}
    assert log["cluster"] == {"a": 0, "b": 1, "c": 1}
    # Clusters {a} with mean 0 and {b, c} with mean .625.
    mass = np.array([10.0, 30.0, 20.0]) * np.exp(-2.0 * np.array([0.0, 0.625, 0.625]))
    np.testing.assert_allclose(coefficients, mass / mass.sum())
    equal, _ = share(replace(method, cluster_mass="equal"))
    favour = np.exp([0.0, -1.25])
    np.testing.assert_allclose(equal, np.array([favour[0], favour[1] * 0.6, favour[1] * 0.4]) / favour.sum())
    literal, _ = share(replace(method, cluster_mass="literal"))
    np.testing.assert_allclose(literal, [favour[0], favour[1] * 0.6, favour[1] * 0.4])


def test_standardised_gini() -> None:
    coefficients, _ = share(
        GLocalFair(gamma=1.0, gini_scale="standardised", reference="targets", targets=(0.4, 0.07, 0.2))
    )
    values = np.array([0.0, 0.75, 0.5])
    z = (np.array([0.0, 0.625, 0.625]) - values.mean()) / values.std()
    mass = np.array([10.0, 30.0, 20.0]) * np.exp(-z)
    np.testing.assert_allclose(coefficients, mass / mass.sum())


def test_literal_form_adds_the_cluster_means() -> None:
    method = GLocalFair(gamma=0.0, cluster_mass="literal", reference="targets", targets=(0.4, 0.07, 0.2))
    state, _ = method.server_round(ServerState(np.full(4, 0.5)), three(), context(("a", "b", "c"), size=4))
    moves = np.array(SPREAD) - 0.5
    np.testing.assert_allclose(state.weights, 0.5 + moves[0] + 0.6 * moves[1] + 0.4 * moves[2])


def test_gini_of_the_update_and_of_trainable_weights_only() -> None:
    method = GLocalFair(gini_of="update", reference="targets", targets=(0.4, 0.07, 0.2))
    _, log = method.coefficients(ServerState(np.ones(4)), three(), context(size=4))
    assert log["gini"]["a"] == 0.0, "an update of zeros"
    _, log = GLocalFair(reference="targets", targets=(0.4, 0.07, 0.2)).coefficients(
        ServerState(np.zeros(4)), three(), context(size=2)
    )
    assert log["gini"] == {"a": 0.0, "b": 0.0, "c": 0.0}


def test_gamma_zero_is_fedavg_bit_for_bit() -> None:
    rng = np.random.default_rng(0)
    updates = [
        ClientUpdate(f"c{i}", rng.normal(size=50).astype(np.float32), int(rng.integers(1, 999))) for i in range(7)
    ]
    state = ServerState(rng.normal(size=50).astype(np.float32))
    ours, _ = GLocalFair(gamma=0.0, reference="targets", targets=(0.4, 0.07, 0.2)).server_round(
        state, updates, context(size=50)
    )
    plain, _ = FedAvg().server_round(state, updates, context(size=50))
    assert (ours.weights == plain.weights).all()


def test_federation_reference_is_pooled_and_remembers_absent_clients() -> None:
    method = GLocalFair()
    infos = {name: method.enrol(held([1], [0], name)) for name in ("a", "b", "c", "d")}
    state = method.init(np.zeros(4), infos)
    assert "reference" not in method.broadcast(state, "a", context(size=4)).payload
    state = method.next_state(state, np.zeros(4), three(totals=True), context(size=4))
    np.testing.assert_allclose(method.broadcast(state, "a", context()).payload["reference"], [3 / 6, 9 / 12, 12 / 18])
    assert "reference" not in method.broadcast(state, "d", context()).payload, "d has reported nothing to compare with"
    # The others' totals are a round older and count half.
    newer = [sent("d", SPREAD[0], 5, {"totals": np.array([0.0, 6.0, 0.0, 6.0])})]
    state = method.next_state(state, np.zeros(4), newer, context(size=4))
    np.testing.assert_allclose(
        method.broadcast(state, "d", context()).payload["reference"], [1.5 / 9, 4.5 / 12, 12 / 21]
    )
    np.testing.assert_allclose(method.broadcast(state, "a", context()).payload["reference"], [3 / 6, 9 / 12, 12 / 18])


def test_references_are_those_of_a_server_that_keeps_everybodys_totals_for_ever() -> None:
    """Those who have not reported for long are left out of the sum; nobody can tell."""
    method, rng = GLocalFair(), np.random.default_rng(3)
    names = [f"c{k:02d}" for k in range(12)]
    state = method.init(np.zeros(4), {name: method.enrol(held([1], [0], name)) for name in names})
    totals, expected = np.zeros((12, 4)), np.full((12, 3), np.nan)
    for number in range(150):
        # The last two come early and never again.
        chosen = np.flatnonzero(rng.random(12) < np.repeat([0.3, 0.5 * (number < 9)], [10, 2]))
        if not len(chosen):
            continue
        missed, caught, accepted, refused = rng.integers(1, 40, (4, len(chosen))).astype(float)
        new = np.stack([missed, missed + caught, accepted, accepted + refused], 1)
        updates = [sent(names[k], SPREAD[0], 5, {"totals": each}) for k, each in zip(chosen, new, strict=True)]
        state = method.next_state(state, np.zeros(4), updates, context(size=4))
        totals *= 0.5
        totals[chosen] = new
        m, p, a, n = totals.sum(0)
        expected[chosen] = m / p, a / n, (p - m + a) / (p + n)
        for name, wanted in zip(names, expected, strict=True):
            told = method.broadcast(state, name, context(size=4)).payload
            np.testing.assert_allclose(told.get("reference", [np.nan] * 3), wanted, rtol=1e-12)
    recent, reported = array(state.values, "recent"), array(state.values, "reported")
    assert len(recent) == len(set(recent.tolist())), "nobody counts twice"
    assert reported.min() > 0 and len(recent) == 10, "somebody has reported, but not lately"


# --------------------------------------------------------------------------- ablations and the payload


def test_ablations_are_settings() -> None:
    federation = drawn()
    clustering_only, _ = play(simulator(GLocalFair(constraints=(), gamma=5.0), federation), 3)
    constraints_only, _ = play(
        simulator(GLocalFair(gamma=0.0, warmup=0.1, reference="targets", targets=(0.4, 0.07, 0.2)), federation), 4
    )
    plain, _ = play(simulator(FedAvg(), federation), 3)
    assert not np.allclose(clustering_only.server.weights, plain.server.weights)
    neither, _ = play(simulator(GLocalFair(constraints=(), gamma=0.0), federation), 3)
    assert (neither.server.weights == plain.server.weights).all()
    plain, _ = play(simulator(FedAvg(), federation), 4)
    assert not np.allclose(constraints_only.server.weights, plain.server.weights)


@pytest.mark.parametrize(
    ("method", "extra"),
    [
        (GLocalFair(), {"totals": 4}),
        (GLocalFair(reference="targets", targets=(0.4, 0.07, 0.2)), {}),
        (GLocalFairPaper(), {}),
    ],
    ids=["federation", "targets", "paper"],
)
def test_every_byte_that_leaves_a_client_is_declared(method: GLocalFair, extra: dict[str, int]) -> None:
    """Take the update apart: weights, the number of examples, the declared totals, and not one byte more."""
    sim = simulator(method, drawn())
    state, _ = play(sim, 2)
    updates, *_ = sim.train_clients(state, sim.context(3))
    assert updates
    for update in updates:
        fields = dict(vars(update))
        assert fields.pop("client") in sim.clients
        weights = np.frombuffer(fields.pop("weights").tobytes(), dtype=np.float64)
        assert len(weights) == sim.network.layout.size
        assert fields.pop("examples") == len(sim.clients[update.client].train)
        payload = fields.pop("payload")
        assert not fields
        assert {key: np.asarray(value).size for key, value in payload.items()} == extra
        if extra:
            rows = sim.clients[update.client].train
            accepted = sim.trainer.logits(state.server.weights, rows) > 0
            y = sim.federation.y[rows]
            totals = [(y == 1) & ~accepted, y == 1, (y == 0) & accepted, y == 0]
            np.testing.assert_array_equal(payload["totals"], [int(t.sum()) for t in totals])
        declared = {d.key for d in method.discloses()}
        assert declared == {"weights", "examples", *payload}
        # As bytes on a wire: a header of names and shapes, then the numbers, eight bytes each.
        numbers = {"weights": weights, "examples": np.array([update.examples], dtype=np.int64), **payload}
        wire = save(numbers)
        header = int.from_bytes(wire[:8], "little")
        assert set(json.loads(wire[8 : 8 + header])) == declared
        assert len(wire) == 8 + header + 8 * (len(weights) + 1 + sum(extra.values()))


def test_stage_is_plain_training_without_attributes() -> None:
    nobody = replace(DATA, groups=np.zeros((8, 0), dtype=int), attributes=())
    assert GLocalFair().plan(Broadcast(np.zeros(3)), seen(nobody, LOGITS), {}) != ()
    (stage,) = GLocalFair().plan(Broadcast(np.zeros(3)), seen(nobody, LOGITS), {})
    assert stage.probability_coefficient is None and isinstance(stage, Stage)
