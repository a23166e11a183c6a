"""The contract of a method: a few pure translations around the one shared trainer.

A method never loops over epochs, touches no disk, knows no engine and keeps nothing in attributes but its own frozen
settings. State goes in and comes out. The base class *is* FedAvg: a method overrides what it changes.

A round, as every engine runs it::

    broadcast(state, client, context)             what the server sends           (server)
    plan(broadcast, received, client_state)       how to train                    (client)
    … the shared trainer executes the plan …                                      (client)
    finish(plan, trained, received, client_state) what to send, keep and tell     (client)
    server_round(state, updates, context)         the new global model            (server)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from glocalfair.aggregation.average import normalise
from glocalfair.aggregation.robust import clip, combine
from glocalfair.types import (
    Attribute,
    Broadcast,
    ClientData,
    ClientInfo,
    ClientState,
    ClientUpdate,
    Diagnostics,
    Floats,
    LocalPlan,
    Log,
    Received,
    RoundContext,
    ServerState,
    Stage,
    Trained,
)

Sends = Literal["weights", "examples", "loss", "totals", "group_counts", "group_rates", "group_losses", "gini"]


@dataclass(frozen=True)
class Disclosure:
    """One thing that leaves a client: the payload key, what kind of thing it is, and a sentence for people."""

    key: str
    kind: Sends
    text: str
    once: bool = False
    """Sent when the client enrols, not in every round."""
    shape: tuple[int | Literal["groups"], ...] = ()
    """Of the payload; ``"groups"`` stands for the number of protected groups (`Method.groups`)."""


PLAIN: LocalPlan = (Stage(),)
"""Plain local training."""
ALWAYS = (
    Disclosure("weights", "weights", "the model after local training"),
    Disclosure("examples", "examples", "the number of training examples"),
)


@dataclass(frozen=True)
class Method:
    """Base of all methods; its behaviour is FedAvg. Fields of a subclass are the method's settings."""

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    citation: ClassVar[str] = ""
    attributes: ClassVar[Literal["none", "single", "joint"]] = "none"
    """Sensitive attributes a run can protect: none, one (or the intersection), or all of them jointly."""
    uses_received: ClassVar[bool] = False
    """Whether `plan` or `finish` reads the logits of the received model."""
    personal: ClassVar[bool] = False
    """Whether local metrics belong to the model under ``client_state["personal"]``."""

    def discloses(self) -> tuple[Disclosure, ...]:
        """List all that leaves a client; a test compares it with what is really sent."""
        return ALWAYS

    def groups(self, attributes: Sequence[Attribute]) -> int:
        """Return the number of groups that payloads count by; 0 for a method without groups."""
        return 0

    def contradiction(self, update: ClientUpdate) -> str | None:
        """Server: why the parts of a payload cannot all be true; each alone has been checked already."""
        return None

    def enrol(self, data: ClientData) -> ClientInfo:
        """Client, once: introduce yourself."""
        return ClientInfo(len(data))

    def init(self, weights: Floats, infos: Mapping[str, ClientInfo]) -> ServerState:
        """Server, once: the state before round 1."""
        return ServerState(weights)

    def broadcast(self, state: ServerState, client: str, context: RoundContext) -> Broadcast:
        """Server: what this client needs for this round."""
        return Broadcast(state.weights)

    def plan(self, broadcast: Broadcast, received: Received, state: ClientState) -> LocalPlan:
        """Client: how to train this round."""
        return PLAIN

    def plans(self, given: Sequence[tuple[Broadcast, Received, ClientState]]) -> list[LocalPlan]:
        """`plan` of several clients, for an engine that runs many: the same, but a method may be faster at it."""
        return [self.plan(*each) for each in given]

    def finish(
        self, plan: LocalPlan, trained: Trained, received: Received, state: ClientState
    ) -> tuple[ClientUpdate, ClientState, Diagnostics]:
        """Client: what leaves, what stays for the next round, and what is only for the client's own eyes."""
        data = received.data
        return ClientUpdate(data.name, trained.weights[-1], len(data)), state, {}

    def coefficients(
        self, state: ServerState, updates: Sequence[ClientUpdate], context: RoundContext
    ) -> tuple[Floats, Log]:
        """Server: how much each update counts; what is missing to 1 stays on the old model."""
        return normalise(np.array([update.examples for update in updates], dtype=float)), {}

    def server_round(
        self, state: ServerState, updates: Sequence[ClientUpdate], context: RoundContext
    ) -> tuple[ServerState, Log]:
        """Server: combine the updates (sorted by client; never empty) into the next global model."""
        updates, clipped = clip(updates, state.weights, context.combining)
        share, log = self.coefficients(state, updates, context)
        weights = self.combined(state.weights, updates, share, context)
        named = {update.client: float(c) for update, c in zip(updates, share, strict=True)}
        told = {"coefficients": named, **({"clipped": clipped} if clipped else {}), **log}
        return self.next_state(state, weights, updates, context), told

    def combined(self, old: Floats, updates: Sequence[ClientUpdate], share: Floats, context: RoundContext) -> Floats:
        """Server: the new weights, by the coefficients and as the user asked (`Combining`)."""
        return combine([update.weights for update in updates], share, old, context.combining)

    def averaged(self, rounds: int) -> int:
        """Server: over how many of the last global models the final model is averaged, unless the user says."""
        return 1

    def next_state(
        self,
        state: ServerState,
        weights: Floats,
        updates: Sequence[ClientUpdate],
        context: RoundContext,
    ) -> ServerState:
        """Server: what to keep beside the new weights."""
        return ServerState(weights, state.values)
