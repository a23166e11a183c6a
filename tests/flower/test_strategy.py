"""The strategy and the client step, as the documentation shows them."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the flower extra")

import torch
from flwr.app import ArrayRecord, Context, RecordDict
from flwr.clientapp import ClientApp

from glocalfair.config import RunConfig, TrainConfig
from glocalfair.engines.simulator import Simulator
from glocalfair.errors import GlocalfairError
from glocalfair.flower import FairStrategy, client_step
from glocalfair.layout import Layout
from glocalfair.local.network import network
from glocalfair.registry import method as make_method
from glocalfair.types import Attribute, Client, Federation
from tests.flower.grid import MemoryGrid

PAGE = Path(__file__).parents[2] / "docs" / "flower.md"
NODES = {10: 2, 20: 0, 30: 1}
"""Node ids and partitions, in different orders."""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write the files of the page and import them."""
    for name, body in re.findall(r"<!-- test: file (\w+)\.py -->\n```python\n(.*?)^```", PAGE.read_text(), re.M | re.S):
        (tmp_path / f"{name}.py").write_text(body)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return importlib.import_module


def nodes(tmp_path: Path) -> dict[int, dict[str, Any]]:
    return {n: {"partition-id": p, "num-partitions": 3, "state": str(tmp_path / str(p))} for n, p in NODES.items()}


def simulated(task: Any, model: torch.nn.Module, name: str, rounds: int) -> Any:
    parts = [task.load(p) for p in range(3)]
    x, y, sex = (np.concatenate(each) for each in zip(*parts, strict=True))
    nobody = np.empty(0, dtype=np.int64)
    clients = tuple(Client(f"site-{p:04d}", np.arange(80 * p, 80 * p + 80), nobody, nobody) for p in range(3))
    federation = Federation("all", x, y, sex[:, None], (Attribute("sex", ("F", "M")),), clients, nobody)
    train = TrainConfig(rounds=rounds, participation=1.0, epochs=1, lr=0.05)
    sim = Simulator(federation, network(model), make_method(name), train, RunConfig(cohort=1))
    state = sim.start(sim.network.layout.flatten(model).numpy())
    while not sim.finished(state):
        state, _ = sim.step(state)
    return sim.final_weights(state)


def test_the_page_as_written(written: Any, tmp_path: Path) -> None:
    """The apps run unchanged, and end with the model of the simulator."""
    task, client, server = (written(name) for name in ("task", "client_app", "server_app"))
    grid = MemoryGrid(client.app, nodes(tmp_path))
    seen: list[Any] = []
    made, start = task.make_model, FairStrategy.start

    def watched(self: Any, *args: Any, **more: Any) -> Any:
        seen.append((args[1], start(self, *args, **more)))
        return seen[0][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FairStrategy, "start", watched)
        server.app(grid, Context(1, 0, {}, RecordDict(), {}))
    initial, result = seen[0]
    model = made()
    model.load_state_dict(initial.to_torch_state_dict())
    expected = simulated(task, model, "glocalfair", 3)
    names = Layout.of(model).names
    found = np.concatenate([result.arrays[name].numpy().reshape(-1) for name in names])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert [dict(each) for each in result.train_metrics_clientapp.values()] == [{"sites": 3, "lost": 0}] * 3


def test_a_broken_client_is_left_out(written: Any, tmp_path: Path) -> None:
    task = written("task")
    model = task.make_model()
    app = ClientApp()

    @app.query()
    @app.train()
    def step(message: Any, context: Any) -> Any:
        x, y, sex = task.load(context.node_config["partition-id"])
        reply = client_step(message, context, task.make_model(), x, y, sex, {"sex": ["F", "M"]})
        if context.node_config["partition-id"] == 1 and message.metadata.message_type == "train":
            reply.content = RecordDict({"arrays": ArrayRecord([np.full(3, np.nan)])})
        return reply

    strategy = FairStrategy(model, "fedavg", {"sex": ["F", "M"]}, min_sites=3)
    result = strategy.start(MemoryGrid(app, nodes(tmp_path)), ArrayRecord(model.state_dict()), num_rounds=2)
    assert [dict(each) for each in result.train_metrics_clientapp.values()] == [{"sites": 2, "lost": 1}] * 2
    assert all(np.isfinite(array.numpy()).all() for array in result.arrays.values())


def test_batch_norm_counters_stay(tmp_path: Path) -> None:
    """Integer buffers are no weights: they come back as they were."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    app = ClientApp()

    @app.query()
    @app.train()
    def step(message: Any, context: Any) -> Any:
        rng = np.random.default_rng(context.node_id)
        return client_step(
            message, context, model, rng.normal(size=(40, 3)).astype("float32"), rng.integers(2, size=40)
        )

    strategy = FairStrategy(model, "fedavg", min_sites=3, seed=3)
    result = strategy.start(MemoryGrid(app, nodes(tmp_path)), ArrayRecord(model.state_dict()), num_rounds=1)
    model.load_state_dict(result.arrays.to_torch_state_dict())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epoch": 1}, "Did you mean 'epochs'"),
        ({"rounds": 1}, "Unknown setting 'rounds'"),
        ({"quorum": 0.0}, "'flower.quorum' must be"),
        ({"early_stopping": 1}, "needs validation rows"),
    ],
)
def test_mistakes_are_explained(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(GlocalfairError, match=message):
        FairStrategy(torch.nn.Linear(3, 1), "fedavg", **settings)


def test_rows_that_do_not_belong_together_are_explained() -> None:
    context = Context(1, 1, {}, RecordDict(), {})
    with pytest.raises(GlocalfairError, match="a row for each person"):
        client_step(None, context, torch.nn.Linear(3, 1), np.zeros((4, 3)), np.zeros(5))  # type: ignore[arg-type]
