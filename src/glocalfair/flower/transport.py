"""How messages reach the sites: over Flower, or in memory through exactly the bytes that Flower would send."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from glocalfair.errors import GlocalfairError
from glocalfair.flower.site import Kind
from glocalfair.flower.wire import Content, from_records, to_records

if TYPE_CHECKING:
    from flwr.app import Message, RecordDict
    from flwr.serverapp import Grid

TYPES: dict[Kind, str] = {"enrol": "query", "train": "train", "finish": "evaluate"}
KINDS: dict[str, Kind] = {sent: kind for kind, sent in TYPES.items()}
Reply = Content | str
"""What a node answered, or why there is no answer."""
ERRORS = {
    1: "unknown error",
    2: "its app failed while loading or running",
    3: "the message timed out",
    4: "the message was lost",
    5: "its node is not connected any more",
    8: "its process died",
}


class Transport(Protocol):
    """All that the coordinator needs to know of a network."""

    def nodes(self) -> list[int]:
        """Return the nodes that are connected."""

    def ask(self, kind: Kind, requests: Mapping[int, Content], timeout: float) -> dict[int, Reply]:
        """Send one message to each node and wait for the replies, at most so many seconds; one reply for each node."""


class GridTransport:
    """Over Flower: a simulation or a deployment."""

    def __init__(self, grid: Grid, pause: float = 0.2) -> None:
        self._grid, self._pause = grid, pause

    def nodes(self) -> list[int]:
        """See `Transport`."""
        return sorted(self._grid.get_node_ids())

    def ask(self, kind: Kind, requests: Mapping[int, Content], timeout: float) -> dict[int, Reply]:
        """See `Transport`. Flower's own loop looks every 3 s and forgets whom a failed reply came from."""
        from flwr.app import Message

        end = time.monotonic() + timeout
        # A message that nobody has fetched by then is not to be worked on any more.
        sent = {
            node: Message(to_records(request), node, TYPES[kind], ttl=timeout + 60)
            for node, request in requests.items()
        }
        pushed = list(self._grid.push_messages(list(sent.values())))
        if len(pushed) != len(sent):
            raise GlocalfairError("The SuperLink does not take the messages: the model is too large for it.")
        taken = dict(zip(sent, pushed, strict=True))
        waiting = {message_id: node for node, message_id in taken.items() if message_id}
        replies: dict[int, Reply] = {node: "the SuperLink did not take the message" for node in sent if not taken[node]}
        pause = self._pause
        while waiting and time.monotonic() < end:
            for message in self._grid.pull_messages(list(waiting)):
                # The id of the request is right even where Flower reports a failure under another node's id.
                node = waiting.pop(message.metadata.reply_to_message_id, None)
                if node is not None:
                    replies[node] = read_reply(message)
            if waiting:
                time.sleep(pause)
                pause = min(1.0, 1.2 * pause)
        return replies | dict.fromkeys(waiting.values(), f"no reply within {timeout:g} s")


def read_reply(message: Message) -> Reply:
    """Read a reply; whatever is wrong with it becomes the reason why there is none."""
    if message.has_error():
        code = message.error.code
        return f"{ERRORS.get(code, 'no reply')} (Flower error {code}: {' '.join(str(message.error.reason).split())})"
    try:
        return from_records(message.content)
    except GlocalfairError as error:
        return str(error)


class MemoryTransport:
    """In one process: sites are functions, and every message goes through Flower's bytes."""

    def __init__(self, sites: Mapping[int, Callable[[Kind, Content], Content]]) -> None:
        self._sites = dict(sites)
        self.sent: list[tuple[Kind, int]] = []
        """Each message that was sent, for tests that count them."""

    def nodes(self) -> list[int]:
        """See `Transport`."""
        return sorted(self._sites)

    def ask(self, kind: Kind, requests: Mapping[int, Content], timeout: float) -> dict[int, Reply]:
        """See `Transport`."""
        replies: dict[int, Reply] = {}
        # Backwards: the order in which replies come must not matter.
        for node in sorted(requests, reverse=True):
            self.sent.append((kind, node))
            try:
                reply = self._sites[node](kind, from_records(through_bytes(to_records(requests[node]))))
                replies[node] = from_records(through_bytes(to_records(reply)))
            except ConnectionError as error:
                replies[node] = str(error)
        return replies


def through_bytes(records: RecordDict) -> RecordDict:
    """Serialise records as Flower's runtime does, and read them back."""
    from flwr.app import RecordDict
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
    from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

    contents = {key: each.deflate() for key, each in get_all_nested_objects(records).items()}
    read = inflate_object_from_contents(records.object_id, contents)
    assert isinstance(read, RecordDict)
    return read
