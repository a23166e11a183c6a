import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from glocalfair import models
from glocalfair.config import RunConfig, TrainConfig
from glocalfair.data import PartitionSpec, SplitSpec, build, load
from glocalfair.engines.simulator import Simulator
from glocalfair.engines.state import SimulationState
from glocalfair.errors import GlocalfairError
from glocalfair.local.network import network
from glocalfair.local.trainer import Trainer
from glocalfair.methods.fedavg import FedAvg
from glocalfair.methods.glocalfair import GLocalFair
from glocalfair.metrics import eod, tables
from glocalfair.types import Broadcast, ClientState, Federation, Floats, Ints, LocalPlan, Received

TRAIN = TrainConfig(rounds=4, participation=0.5, lr=0.05, batch_size=16)


@pytest.fixture(scope="module")
def federation() -> Federation:
    return build(load("synthetic", rows=900, clients=8), PartitionSpec("by_column"), SplitSpec(), seed=1)[0]


def simulator(federation: Federation, method=None, train=TRAIN, **run: object) -> Simulator:  # type: ignore[no-untyped-def]
    module = models.build("mlp", federation.x.shape[1], 0, (8, 4))
    return Simulator(federation, network(module), method or FedAvg(), train, RunConfig(**run))  # type: ignore[arg-type]


def play(sim: Simulator, rounds: int | None = None) -> tuple[SimulationState, list[dict]]:  # type: ignore[type-arg]
    module = models.build("mlp", sim.federation.x.shape[1], 0, (8, 4))
    state, records = sim.start(sim.network.layout.flatten(module).numpy()), []
    while not sim.finished(state) and (rounds is None or state.round < rounds):
        state, record = sim.step(state)
        records.append(record)
    return state, records


@pytest.mark.parametrize("method", [FedAvg(), GLocalFair()], ids=lambda m: m.name)
def test_order_and_workers_change_no_bit(federation: Federation, method: FedAvg) -> None:
    reference, log = play(simulator(federation, method, cohort=2))
    reverse = replace(federation, clients=federation.clients[::-1])
    for other in (simulator(reverse, method, cohort=2), simulator(federation, method, cohort=2, workers=3)):
        state, other_log = play(other)
        assert (state.server.weights == reference.server.weights).all()
        assert str(other_log) == str(log)


def test_seed_changes_everything(federation: Federation) -> None:
    one, two = (play(simulator(federation, seed=seed))[0].server.weights for seed in (0, 1))
    assert not np.allclose(one, two)


def test_fedavg_is_the_weighted_mean_of_what_clients_train(federation: Federation) -> None:
    sim = simulator(federation, dtype="float64")
    state, _ = play(sim, 1)
    context = sim.context(2)
    updates, *_ = sim.train_clients(state, context)
    after, record = sim.step(state)
    sizes = np.array([len(sim.clients[name].train) for name in context.participants])
    expected = np.average([u.weights for u in updates], axis=0, weights=sizes)
    np.testing.assert_allclose(after.server.weights, expected, atol=1e-12)
    assert sum(record["server"]["coefficients"].values()) == pytest.approx(1)


def test_participation_and_sampling(federation: Federation) -> None:
    sim = simulator(federation)
    rounds = [sim.context(n).participants for n in range(1, 200)]
    assert all(len(p) == 4 == len(set(p)) for p in rounds)
    share = np.bincount([list(sim.clients).index(name) for p in rounds for name in p]) / len(rounds)
    assert (np.abs(share - 0.5) < 0.15).all()
    assert len(simulator(federation, train=replace(TRAIN, participation=0.01)).context(1).participants) == 1


def test_dropout_loses_updates_and_client_state_but_not_the_run(federation: Federation) -> None:
    train = replace(TRAIN, rounds=12, participation=1.0, dropout=0.4)
    state, records = play(simulator(federation, GLocalFair(), train))
    lost = [set(r["failed"]) for r in records]
    assert any(lost)
    for record in records:
        assert not set(record["failed"]) & set(record["server"].get("coefficients", {}))
    assert np.isfinite(state.server.weights).all()


def test_all_clients_failing_keeps_the_model(federation: Federation) -> None:
    sim = simulator(federation, train=replace(TRAIN, dropout=0.999999))
    start, _ = play(sim, 0)
    state, records = play(sim)
    assert (state.server.weights == start.server.weights).all()
    assert all(len(r["failed"]) == 4 for r in records)


def test_a_broken_client_is_named_and_left_out(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    sim = simulator(federation, train=replace(TRAIN, participation=1.0))
    original = FedAvg.finish

    def broken(self, plan, trained, received, state):  # type: ignore[no-untyped-def]
        update, kept, told = original(self, plan, trained, received, state)
        if update.client == next(iter(sim.clients)):
            update = replace(update, weights=update.weights * np.nan)
        return update, kept, told

    monkeypatch.setattr(FedAvg, "finish", broken)
    state, records = play(sim)
    assert next(iter(sim.clients)) not in state.clients, "a rejected client has lost the round, and its state with it"
    assert np.isfinite(state.server.weights).all()
    assert list(records[0]["rejected"]) == [next(iter(sim.clients))]
    assert "not finite" in next(iter(records[0]["rejected"].values()))


def test_average_of_the_last_models(federation: Federation) -> None:
    sim = simulator(federation, train=replace(TRAIN, average_last=3), dtype="float64")
    module = models.build("mlp", federation.x.shape[1], 0, (8, 4))
    state, seen = sim.start(sim.network.layout.flatten(module).numpy()), []
    while not sim.finished(state):
        state, _ = sim.step(state)
        seen.append(state.server.weights)
    np.testing.assert_allclose(sim.final_weights(state), np.mean(seen[-3:], 0), atol=1e-14)


def test_who_says_how_many_models_are_averaged(federation: Federation) -> None:
    """The user first, then the method; early stopping keeps one model."""
    long = replace(TRAIN, rounds=60)
    assert simulator(federation, GLocalFair(), long).averaged == 20
    assert simulator(federation, GLocalFair(), replace(long, average_last=5)).averaged == 5
    assert simulator(federation, GLocalFair(), replace(long, early_stopping=2)).averaged == 1
    assert simulator(federation, FedAvg(), long).averaged == 1


def test_early_stopping_keeps_the_best_model(federation: Federation) -> None:
    train = replace(TRAIN, rounds=60, lr=1.0, early_stopping=3)
    sim = simulator(federation, train=train)
    state, records = play(sim)
    losses = [r["validation"]["loss"] for r in records]
    assert state.round < 60
    assert len(losses) - 1 - int(np.argmin(losses)) == 3
    assert sim.validate(sim.final_weights(state))["loss"] == pytest.approx(min(losses))


def test_early_stopping_and_averaging_exclude_each_other() -> None:
    with pytest.raises(GlocalfairError, match="average_last"):
        TrainConfig(early_stopping=2, average_last=5)


def test_learning_rate_decays_by_rounds(federation: Federation) -> None:
    sim = simulator(federation, train=replace(TRAIN, lr=1.0, lr_decay=0.5, lr_decay_every=2))
    assert [sim.context(n).training.lr for n in range(1, 6)] == [1.0, 1.0, 0.5, 0.5, 0.25]


def test_evaluation_every_n_rounds(federation: Federation) -> None:
    _, records = play(simulator(federation, evaluate_every=3))
    assert [r["round"] for r in records if "validation" in r] == [3, 4]


def test_labels_may_be_of_any_kind_of_number(federation: Federation) -> None:
    other = replace(federation, y=federation.y.astype(float))
    assert play(simulator(other))[1] == play(simulator(federation))[1]


def test_validation_counts_like_the_tables(federation: Federation) -> None:
    sim = simulator(federation)
    model = play(sim, 2)[0].server.weights
    rows = sim.validation
    predicted = (sim.trainer.logits(model, rows) > 0).astype(int)
    counted = tables(federation.y[rows], predicted, federation.groups[rows], federation.attributes)
    for told in sim.validate_all([model, model]):
        for attribute in federation.attributes:
            assert told["eod"][attribute.name] == eod(counted.table(attribute.name))[0]


@pytest.mark.parametrize(("every", "rounds"), [(1, [1, 2, 3, 4]), (3, [3, 4]), (0, [5, 6]), (9, [4])])
def test_clients_own_models_are_measured_as_often_as_asked(
    federation: Federation, every: int, rounds: list[int]
) -> None:
    sim = simulator(federation, GLocalFair(), replace(TRAIN, rounds=rounds[-1]), evaluate_clients_every=every)
    held = sum(len(client.train) for client in federation.clients) / len(federation.clients)
    assert 4 * held < 4 * len(sim.validation) <= 5 * held, "by itself: every fifth round"
    _, records = play(sim)
    assert [record["round"] for record in records if "client_models" in record] == rounds
    off = play(simulator(federation, GLocalFair(), evaluate_clients=False, evaluate_clients_every=every))[1]
    assert not any("client_models" in record for record in off)


def test_clients_own_models_are_measured_where_the_others_are(federation: Federation) -> None:
    sim = simulator(federation, GLocalFair(), replace(TRAIN, rounds=11), evaluate_every=2, evaluate_clients_every=5)
    assert [r["round"] for r in play(sim)[1] if "client_models" in r] == [6, 10, 11]
    stopping = replace(TRAIN, rounds=11, early_stopping=1, lr=5.0)
    sim = simulator(federation, GLocalFair(), stopping, evaluate_clients_every=50)
    _, records = play(sim)
    assert len(records) < 11, "a learning rate of 5 does not go well"
    assert [r["round"] for r in records if "client_models" in r] == [records[-1]["round"]]


@pytest.mark.parametrize("every", [1, 2, 3])
def test_no_row_is_shown_to_a_model_twice(federation: Federation, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[bytes, int]] = []
    logits_of = Trainer.logits_of

    def noted(self: Trainer, weights: Sequence[Floats], rows: Ints) -> Floats:
        shown.extend((model.tobytes(), row) for model in weights for row in rows.tolist())
        return logits_of(self, weights, rows)

    monkeypatch.setattr(Trainer, "logits_of", noted)
    sim = simulator(federation, GLocalFair(), evaluate_every=every, evaluate_clients_every=1)
    play(sim)
    held_out = {row for _, row in shown} & set(sim.validation.tolist())
    assert len(held_out) == len(sim.validation)
    assert len(set(shown)) == len(shown)


@pytest.mark.parametrize("every", [1, 2, 3])
def test_clients_see_the_received_model_on_their_own_rows(federation: Federation, every: int) -> None:
    seen = []

    class Looks(FedAvg):
        uses_received = True

        def plan(self, broadcast: Broadcast, received: Received, state: ClientState) -> LocalPlan:
            seen.append(received)
            return super().plan(broadcast, received, state)

    sim = simulator(federation, Looks(), evaluate_every=every)
    play(sim)
    assert len(seen) == 4 * 4
    for received in seen:
        client = sim.clients[received.data.name]
        for rows, found in ((client.train, received.logits), (client.validation, received.validation_logits)):
            np.testing.assert_allclose(found, sim.trainer.logits(received.weights, rows), atol=1e-6)


@pytest.mark.parametrize("every", [1, 2])
def test_a_continued_run_has_every_bit_of_one_that_was_not_interrupted(federation: Federation, every: int) -> None:
    whole, records = play(simulator(federation, GLocalFair(), evaluate_every=every))
    state, before = play(simulator(federation, GLocalFair(), evaluate_every=every), 2)
    sim, state, after = simulator(federation, GLocalFair(), evaluate_every=every), copy.deepcopy(state), []
    while not sim.finished(state):
        state, record = sim.step(state)
        after.append(record)
    assert (state.server.weights == whole.server.weights).all()
    assert str(before + after) == str(records)
