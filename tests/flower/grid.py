"""Flower's Grid in memory: runs client apps as Flower would, through its bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from glocalfair.flower.transport import through_bytes


class MemoryGrid(Grid):
    """Nodes that each run one client app, with a config of their own."""

    def __init__(
        self, app: ClientApp, nodes: dict[int, dict[str, Any]], run_config: dict[str, Any] | None = None
    ) -> None:
        self.app, self.nodes, self.run_config = app, nodes, run_config or {}
        self.replies: dict[str, Message] = {}
        # Flower's runtime tells a process who it is.
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 0, 1

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *args: Any, **more: Any) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def get_nodes(self) -> Iterable[Any]:
        raise NotImplementedError

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            about = message.metadata
            about.__dict__["_message_id"] = str(uuid4())
            node = about.dst_node_id
            message.content = through_bytes(message.content)
            context = Context(1, node, self.nodes[node], RecordDict(), self.run_config)
            answer = self.app(message, context)
            answer.content = through_bytes(answer.content)
            self.replies[about.message_id] = answer
            ids.append(about.message_id)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self.replies.pop(each) for each in list(message_ids) if each in self.replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))
