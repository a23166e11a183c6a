"""Over Flower's grid: waits are bounded, and a failure is the site's that was asked, whoever Flower says it was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the flower extra")

from flwr.app import Error, Message
from flwr.clientapp import ClientApp

from glocalfair.errors import GlocalfairError
from glocalfair.flower.transport import GridTransport
from glocalfair.flower.wire import Content, from_records, to_records
from tests.flower.grid import MemoryGrid


def echo() -> ClientApp:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Any) -> Message:
        content = from_records(message.content)
        return Message(to_records(Content({**content.values, "node": context.node_id})), reply_to=message)

    return app


class Broken(MemoryGrid):
    """Node 2 fails under the name of node 3, node 4 never answers, and replies come one at a time."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        for each in list(message_ids):
            found = self.replies.get(each)
            if found is None or found.metadata.src_node_id == 4:
                continue
            del self.replies[each]
            if found.metadata.src_node_id == 2:
                error = Message(Error(5, "Node\nUnavailable"), reply_to=found)
                error.metadata.__dict__["_src_node_id"] = 3
                error.metadata.__dict__["_reply_to_message_id"] = each
                return [error]
            return [found]
        return []


class Node(ClientApp):
    """Replies carry the node they come from, as Flower's do."""

    def __call__(self, message: Message, context: Any) -> Message:
        reply = echo()(message, context)
        reply.metadata.__dict__["_src_node_id"] = context.node_id
        return reply


def test_failures_go_to_the_right_site_and_waits_end() -> None:
    transport = GridTransport(Broken(Node(), {node: {} for node in (1, 2, 3, 4)}), pause=0.01)
    replies = transport.ask("train", {node: Content({"asked": node}) for node in (1, 2, 3, 4)}, timeout=0.5)
    assert replies[2] == "its node is not connected any more (Flower error 5: Node Unavailable)"
    assert replies[4] == "no reply within 0.5 s"
    for node in (1, 3):
        reply = replies[node]
        assert isinstance(reply, Content) and reply.values == {"asked": node, "node": node}


def test_a_superlink_that_does_not_take_messages() -> None:
    class Full(MemoryGrid):
        def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
            return []

    class Some(MemoryGrid):
        def push_messages(self, messages: Iterable[Message]) -> Iterable[Any]:
            first, *_ = super().push_messages(messages)
            return [first, None]

    asked = {node: Content() for node in (1, 2)}
    with pytest.raises(GlocalfairError, match="too large"):
        GridTransport(Full(echo(), {1: {}, 2: {}})).ask("train", asked, 1.0)
    replies = GridTransport(Some(echo(), {1: {}, 2: {}}), pause=0.01).ask("train", asked, 1.0)
    assert isinstance(replies[1], Content) and replies[2] == "the SuperLink did not take the message"
