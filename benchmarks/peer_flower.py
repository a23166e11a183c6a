"""Flower's simulation on the same work, as its documentation shows. Runs in the peers' environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common import MessageType
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.clock import Laps, report, tree_cpu
from benchmarks.loops import model
from benchmarks.work import BATCH, LR, MOMENTUM, Work

PATH = "GLOCALFAIR_BENCHMARK_WORK"

client_app = ClientApp()


@cache
def _work() -> tuple[Work, torch.nn.Module, torch.Tensor, torch.Tensor]:
    """Load once for each process of the simulation."""
    torch.set_num_threads(1)
    work = Work.load(Path(os.environ[PATH]))
    return work, model(work), torch.from_numpy(work.x), torch.from_numpy(work.y).float()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """Train as the client that the server names, so that the same clients take part in every engine."""
    work, net, x, y = _work()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    client = int(message.content["config"]["client"])
    mine = slice(int(work.edges[client]), int(work.edges[client + 1]))
    inputs, labels = x[mine], y[mine]
    optimiser = torch.optim.SGD(net.parameters(), LR, MOMENTUM)
    parts = torch.randperm(len(labels)).split(BATCH)
    for part in parts:
        optimiser.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(net(inputs[part])[:, 0], labels[part]).backward()
        optimiser.step()
    metrics = MetricRecord({"num-examples": len(labels), "steps": len(parts)})
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


class Named(FedAvg):
    """FedAvg that tells each node which client to be, and marks the rounds."""

    def __init__(self, work: Work, laps: Laps) -> None:
        clients = len(work.edges) - 1
        super().__init__(fraction_evaluate=0.0, min_available_nodes=clients)
        self._work, self._laps, self.steps = work, laps, 0

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Address the round's participants."""
        self._laps.mark()
        chosen = self._work.participants[server_round - 1]
        nodes = sorted(grid.get_node_ids())
        return [
            Message(
                content=RecordDict({"arrays": arrays, "config": ConfigRecord({"client": int(client)})}),
                message_type=MessageType.TRAIN,
                dst_node_id=node,
            )
            for node, client in zip(nodes, chosen, strict=False)
        ]

    def aggregate_train(self, server_round: int, replies: Iterable[Message]):
        """Count the steps and average."""
        replies = list(replies)
        assert not any(reply.has_error() for reply in replies), "a client failed"
        self.steps += sum(int(reply.content["metrics"]["steps"]) for reply in replies)
        return super().aggregate_train(server_round, replies)


def main(path: str) -> None:
    """Train and report the time of a round; CPU time is that of all processes of the simulation."""
    os.environ[PATH] = path
    work = Work.load(Path(path))
    server_app, told = ServerApp(), {}

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        laps = Laps(tree_cpu)
        strategy = Named(work, laps)
        rounds = len(work.participants)
        result = strategy.start(grid, ArrayRecord(model(work).state_dict()), num_rounds=rounds)
        laps.mark()
        final = tuple(v.numpy() for v in result.arrays.to_torch_state_dict().values())
        told.update(laps=laps, steps=strategy.steps, loss=work.loss(final))

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app, client_app, len(work.edges) - 1, backend_config=resources)
    report(told["laps"].mean(skip=2), steps=told["steps"], loss=told["loss"])


if __name__ == "__main__":
    # The processes of the simulation import the client by its name, and know no such thing as this "__main__".
    from benchmarks import peer_flower

    peer_flower.main(*sys.argv[1:])
