"""GLocalFair under Flower's own SecAgg+: the server sees Gini coefficients and one sum, and gets the same model.

In two steps: every client trains, keeps its model and tells its Gini coefficient; the server answers with the client's
coefficient, and the clients send their masked models. Flower's workflow and mod run as they are; only the wire between
them is short.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the flower extra")

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.common import Code, FitIns, FitRes, Status, bytes_to_ndarray, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Stage
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.compat.common import recorddict_compat as compat
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key
from flwr.supercore.task_identity import TaskIdentity

from glocalfair import registry
from glocalfair.types import ClientUpdate
from tests.federations import drawn, play, simulator

SCALE = 1_000_000
"""Flower's mod weighs by a whole number of examples: a coefficient in millionths stands in for it."""


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for the server's process."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def over_the_wire(message: Message) -> Message:
    return message_from_proto(message_to_proto(message))


class Wire:
    """Hands messages to the clients' mods and keeps what the server saw."""

    def __init__(self, models: dict[int, np.ndarray], lost: Iterable[int] = ()) -> None:
        self.models, self.lost, self.seen = models, set(lost), []  # type: ignore[var-annotated]
        empty = {"node_config": {}, "run_config": {}}
        self.contexts = {n: Context(run_id=1, node_id=n, state=RecordDict(), **empty) for n in models}

    def app(self, message: Message, context: Context) -> Message:
        """Reply with the model that was trained before, weighed as the server says."""
        told = compat.recorddict_to_fitins(message.content, keep_input=True).config
        weights = ndarrays_to_parameters([self.models[context.node_id]])
        reply = FitRes(Status(Code.OK, ""), weights, int(told["coefficient"]), {})
        return Message(compat.fitres_to_recorddict(reply, keep_input=False), reply_to=message)

    def send_and_receive(self, messages: Iterable[Message], timeout: float | None = None) -> list[Message]:
        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            configs = message.content.config_records[RECORD_KEY_CONFIGS]
            if node in self.lost and configs["stage"] in (Stage.COLLECT_MASKED_VECTORS, Stage.UNMASK):
                continue
            reply = secaggplus_mod(over_the_wire(message), self.contexts[node], self.app)
            self.seen.append(reply.content)
            replies.append(over_the_wire(reply))
        return replies


def securely_averaged(wire: Wire, shares: dict[int, float], size: int) -> np.ndarray:
    """Run Flower's SecAgg+ once and return the weighted mean of the models."""
    sums: list[np.ndarray] = []
    strategy = Mock()
    strategy.configure_fit.return_value = [
        (Mock(node_id=node), FitIns(ndarrays_to_parameters([]), {"coefficient": round(SCALE * share)}))
        for node, share in shares.items()
    ]

    def aggregate(_: int, results: Any, failures: Any) -> tuple[None, dict[str, Any]]:
        sums.append(parameters_to_ndarrays(results[0][1].parameters)[0])
        return None, {}

    strategy.aggregate_fit.side_effect = aggregate
    state = RecordDict({MAIN_CONFIGS_RECORD: ConfigRecord({Key.CURRENT_ROUND: 1}), MAIN_PARAMS_RECORD: ArrayRecord([])})
    context = Context(run_id=1, node_id=0, node_config={}, state=state, run_config={})
    legacy = LegacyContext(context, strategy=strategy, client_manager=Mock())
    SecAggPlusWorkflow(num_shares=1.0, reconstruction_threshold=0.5, max_weight=float(SCALE))(wire, legacy)  # type: ignore[arg-type]
    assert len(sums) == 1 and sums[0].shape == (size,)
    return sums[0]


def trained() -> tuple[Any, Any, Any, list[ClientUpdate]]:
    values = {"gini_by": "client", "reference": "local", "warmup": 0.0, "gamma": 5.0, "gini_of": "update"}
    sim = simulator(registry.method("glocalfair", values), drawn(clients=4))
    state, _ = play(sim, 1)
    context = sim.context(2)
    return sim, state, context, sim.train_clients(state, context)[0]


@pytest.mark.parametrize("lost", [[], [2]], ids=["all", "one lost after its keys were shared"])
def test_the_model_is_that_of_the_simulator(lost: list[int]) -> None:
    sim, state, context, updates = trained()
    nodes = dict(enumerate(updates, 1))
    # Step 1: the server sees this of each client, and no weights.
    told = [ClientUpdate(u.client, np.empty(0), u.examples, u.payload) for u in updates]
    shares, _ = sim.method.coefficients(state.server, told, context)
    # Step 2.
    wire = Wire({node: update.weights for node, update in nodes.items()}, lost)
    mean = securely_averaged(wire, dict(zip(nodes, shares.tolist(), strict=True)), len(state.server.weights))
    present = [u for node, u in nodes.items() if node not in lost]
    kept = np.array([share for node, share in zip(nodes, shares, strict=True) if node not in lost])
    expected = np.average([u.weights for u in present], axis=0, weights=kept)
    # A model is rounded, up or down by chance, to a step of 22 bits over ±8, its share to a millionth; the sum is
    # divided by the shares that arrived.
    room = len(present) * (16 / 2**22 + 1 / SCALE) / kept.sum()
    np.testing.assert_allclose(mean, expected, rtol=0, atol=room)
    if not lost:
        new, _ = sim.method.server_round(state.server, updates, context)
        np.testing.assert_allclose(mean, new.weights, rtol=0, atol=room)


def test_no_single_model_is_seen() -> None:
    _, _, _, updates = trained()
    nodes = dict(enumerate(updates, 1))
    wire = Wire({node: update.weights for node, update in nodes.items()})
    securely_averaged(wire, dict.fromkeys(nodes, 0.25), len(updates[0].weights))
    masked = [c for c in wire.seen if "masked_params" in c.config_records[RECORD_KEY_CONFIGS]]
    assert len(masked) == len(nodes)
    for content in masked:
        assert not any(content.array_records.values())
        vector = content.config_records[RECORD_KEY_CONFIGS]["masked_params"]
        numbers = np.concatenate([bytes_to_ndarray(part).ravel() for part in vector]).astype(float) / 2**32
        # Uniform on [0, 1): the mean of so many has this standard deviation.
        assert abs(numbers.mean() - 0.5) < 6 / np.sqrt(12 * len(numbers))
