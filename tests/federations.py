"""Small federations and rounds for the tests of methods and engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from glocalfair import models
from glocalfair.config import RunConfig, TrainConfig
from glocalfair.data import PartitionSpec, SplitSpec, build, load
from glocalfair.engines.simulator import Simulator
from glocalfair.engines.state import SimulationState
from glocalfair.local.network import network
from glocalfair.methods.base import Method
from glocalfair.types import (
    Attribute,
    Client,
    ClientData,
    ClientInfo,
    ClientUpdate,
    Federation,
    Floats,
    Received,
    RoundContext,
    ServerState,
    Trained,
    TrainingSettings,
)

# These matrices are so small that threads only wait for each other.
torch.set_num_threads(1)


def drawn(values: int = 2, rows: int = 240, clients: int = 4) -> Federation:
    """Draw a synthetic federation with uneven clients."""
    data = load("synthetic", rows=rows, features=3, attributes=2, values=values)
    return build(data, PartitionSpec("dirichlet", clients=clients, alpha=1.0, min_rows=10), SplitSpec(), 0)[0]


def awkward(values: int = 2) -> Federation:
    """Make clients that break careless code: one group, one class, one row, a value that nobody has."""
    rng = np.random.default_rng(3)
    rows = 160
    attributes = (
        Attribute("a", tuple(f"a{i}" for i in range(values))),
        Attribute("b", tuple(f"b{i}" for i in range(values + 1))),
    )
    # The last value of b has no rows at all.
    groups = rng.integers(values, size=(rows, 2))
    y = rng.integers(2, size=rows)
    groups[0:30, 0] = 1
    groups[30:60] = 0
    y[60:90] = 1
    y[90:110] = 0
    x = rng.standard_normal((rows, 4)) + y[:, None]
    parts = {
        "mixed": np.arange(111, 150),
        "no-positives": np.arange(90, 110),
        "no-negatives": np.arange(60, 90),
        "one-cell": np.arange(30, 60),
        "one-group": np.arange(0, 30),
        "one-row": np.arange(110, 111),
    }
    none = np.arange(0)
    clients = tuple(
        Client(name, r[: len(r) // 2 + 1], r[len(r) // 2 + 1 :][::2], r[len(r) // 2 + 1 :][1::2])
        for name, r in parts.items()
    )
    assert sum(len(c) for c in clients) == 150 and len(clients[-1].test) == len(none)
    return Federation("awkward", x, y, groups, attributes, clients, np.arange(150, rows))


def alone(federation: Federation, name: str) -> Federation:
    """Keep one client only."""
    client = federation.client(name)
    f = federation
    return Federation(f.name, f.x, f.y, f.groups, f.attributes, (client,), f.test)


def simulator(method: Method, federation: Federation, **train: Any) -> Simulator:
    """Put a method on a federation: float64, a tiny network, everybody in every round."""
    net = network(models.build("mlp", federation.x.shape[1], 0, (4,)))
    settings = {"rounds": 4, "participation": 1.0, "lr": 0.1, "batch_size": 16, **train}
    return Simulator(
        federation, net, method, TrainConfig(**settings), RunConfig(dtype="float64", evaluate_clients_every=1)
    )


def start(sim: Simulator, scale: float = 1.0) -> SimulationState:
    """Return the state before round 1, the same for every method; `scale` stretches the initial weights."""
    module = models.build("mlp", sim.federation.x.shape[1], 0, (4,))
    return sim.start(scale * sim.network.layout.flatten(module).numpy())


def play(
    sim: Simulator, rounds: int, state: SimulationState | None = None
) -> tuple[SimulationState, list[dict[str, Any]]]:
    """Run some rounds."""
    state = start(sim) if state is None else state
    records = []
    for _ in range(rounds):
        state, record = sim.step(state)
        records.append(record)
    return state, records


# ------------------------------------------------------------------------- one client, one round, by hand


def held(y: list[int], groups: list[int], name: str = "k", values: int = 2) -> ClientData:
    """Return a client's rows with one attribute."""
    attribute = Attribute("a", tuple(f"a{i}" for i in range(values)))
    return ClientData(name, np.array(y), np.array(groups).reshape(-1, 1), (attribute,))


def seen(data: ClientData, logits: list[float] | Floats, **training: Any) -> Received:
    """Return the received model's logits on a client's rows."""
    return Received(data, TrainingSettings(**training), 1, np.asarray(logits, dtype=float))


def replied(method: Method, received: Received, weights: Floats, server: ServerState) -> ClientUpdate:
    """Run a client's half of a round as if training had ended at `weights`."""
    sent = method.broadcast(server, received.data.name, context((received.data.name,)))
    plan = method.plan(sent, received, {})
    return method.finish(plan, Trained((weights,) * len(plan), 0.0, 1), received, {})[0]


def context(participants: tuple[str, ...] = (), number: int = 1, size: int = 2, **training: Any) -> RoundContext:
    """Return what everybody knows about a round."""
    return RoundContext(number, 10, 0, participants, TrainingSettings(**training), size)


def sent(client: str, weights: list[float], examples: int, payload: Mapping[str, Any] | None = None) -> ClientUpdate:
    """Return an update written by hand."""
    return ClientUpdate(client, np.array(weights), examples, payload or {})


def enrolled(method: Method, *clients: ClientData) -> dict[str, ClientInfo]:
    """Enrol some clients."""
    return {data.name: method.enrol(data) for data in clients}
