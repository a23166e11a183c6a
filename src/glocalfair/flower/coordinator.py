"""The coordinator's round loop: bounded waits, a quorum, every failure with a name, and a checkpoint after each round.

`requests` and `receive` are the two halves of a round, without a network in them; `Coordinator.run` puts a transport
between them. A run that was stopped in any way is started again with the same directory and ends with the same model.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glocalfair.config import Config
from glocalfair.engines import rounds
from glocalfair.engines.checks import Expected, accept, unusable
from glocalfair.engines.state import SimulationState
from glocalfair.errors import GlocalfairError
from glocalfair.flower.enrolment import Roster
from glocalfair.flower.settings import FlowerConfig
from glocalfair.flower.transport import Reply, Transport
from glocalfair.flower.wire import Content
from glocalfair.methods.base import Method
from glocalfair.privacy import spent
from glocalfair.runs import RunDirectory
from glocalfair.types import ClientUpdate, Floats, Log, RoundContext, ServerState

USED = "used"
OnRound = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, eq=False)
class Coordinator:
    """The server's half of a run.

    Attributes
    ----------
    config, flower
        The settings of the run and of the deployment.
    method
        The method.
    roster
        Who takes part.
    groups
        How many groups the method counts, see `Method.groups`.
    trainable
        How many of the first weights are trained.
    """

    config: Config
    flower: FlowerConfig
    method: Method
    roster: Roster
    groups: int
    trainable: int

    @property
    def expected(self) -> Expected:
        """What an honest site sends."""
        return Expected(self.method, self.groups)

    def start(self, weights: Floats) -> SimulationState:
        """Return the state before round 1."""
        return SimulationState(0, self.method.init(weights.astype(self.config.run.dtype), self.roster.infos))

    def context(self, number: int) -> RoundContext:
        """Return who takes part in a round and how to train; the same as the simulator's for the same names."""
        c = self.config
        names = sorted(self.roster.infos)
        return rounds.round_context(names, number, c.train, c.run.seed, self.trainable, c.server)

    def requests(self, state: SimulationState, context: RoundContext) -> dict[str, Content]:
        """Return what is sent to each participant of a round."""
        training = json.dumps(dataclasses.asdict(context.training), sort_keys=True)
        terms = self.roster.terms.to_json()
        result = {}
        for name in context.participants:
            sent = self.method.broadcast(state.server, name, context)
            result[name] = Content.of(
                sent.payload,
                terms=terms,
                round=context.round,
                rounds=context.rounds,
                training=training,
                # The last round whose update was used: the site goes on from its state after that one.
                used=int(state.clients.get(name, {}).get(USED, 0)),
                weights=np.asarray(sent.weights),
            )
        return result

    def receive(
        self, state: SimulationState, context: RoundContext, replies: Mapping[str, Reply]
    ) -> tuple[SimulationState, dict[str, Any]]:
        """Check the replies, combine the good ones, and return the state after the round with its record."""
        updates, failed, refused = [], {}, {}
        for name in context.participants:
            reply = replies.get(name, "it is not connected")
            if isinstance(reply, str):
                failed[name] = reply
                continue
            try:
                updates.append(_update(name, reply, context.round))
            except GlocalfairError as error:
                refused[name] = str(error)
        asked = {name: self.roster.infos[name].examples for name in context.participants}
        expected = self.expected
        usable, rejected = accept(updates, state.server.weights, asked, expected, self.config.server.max_norm)
        usable, wrong = _of_type(usable, self.config.run.dtype)
        if len(usable) >= self.flower.quorum * len(context.participants):
            server, log = self._combined(state, usable, context)
        else:
            server = state.server
            log = {"refused": f"{len(usable)} of {len(context.participants)} updates are below the quorum"}
        used = [] if "refused" in log else [update.client for update in usable]
        record = {
            "round": context.round,
            "participants": list(context.participants),
            "failed": sorted(failed),
            "why": failed,
            "rejected": dict(sorted({**refused, **rejected, **wrong}.items())),
            "server": log,
        }
        if self.config.privacy.on:
            record["privacy"] = {"epsilon": self.epsilon(context.round), "delta": self.config.privacy.delta}
        clients = {**state.clients, **{name: {USED: context.round} for name in used}}
        state = replace(state, round=context.round, server=server, clients=clients)
        return rounds.remember(state, self.averaged, self.config.train.rounds), record

    def epsilon(self, rounds: int) -> float:
        """Return ε after so many rounds; it follows from who was asked, so that a continued run has the same."""
        schedule = [self.context(number).participants for number in range(1, rounds + 1)]
        return spent(self.config.privacy, schedule, len(self.roster.infos))

    def _combined(
        self, state: SimulationState, usable: list[ClientUpdate], context: RoundContext
    ) -> tuple[ServerState, Log]:
        server, log = self.method.server_round(state.server, usable, context)
        reason = unusable(server)
        return (server, log) if reason is None else (state.server, {"refused": reason})

    @property
    def averaged(self) -> int:
        """Over how many of the last models the final one is averaged."""
        return rounds.averaged(self.method, self.config.train)

    def final_weights(self, state: SimulationState) -> Floats:
        """Return the model of the run."""
        return rounds.final_weights(state, self.averaged)

    def run(
        self,
        transport: Transport,
        state: SimulationState,
        directory: RunDirectory | None = None,
        on_round: OnRound | None = None,
    ) -> SimulationState:
        """Run all rounds that are left."""
        nodes, without = dict(self.roster.nodes), 0
        while state.round < self.config.train.rounds:
            begun = time.perf_counter()
            context = self.context(state.round + 1)
            nodes = self.connected(transport, nodes, context.participants)
            requests = self.requests(state, context)
            there = {nodes[name]: name for name in requests if name in nodes}
            to_send = {node: requests[name] for node, name in there.items()}
            replies = transport.ask("train", to_send, self.flower.round_timeout) if to_send else {}
            named = {there[node]: reply for node, reply in replies.items()}
            state, record = self.receive(state, context, named)
            if directory is not None:
                directory.append(record, round(time.perf_counter() - begun, 6))
                directory.save_state(state)
            if on_round is not None:
                on_round(record)
            without = without + 1 if "refused" in record["server"] else 0
            if without >= self.flower.give_up:
                reasons = {**record["why"], **record["rejected"]}
                raise GlocalfairError(
                    f"{without} rounds in a row had no quorum; the last global model is safe. In round {state.round}: "
                    + "; ".join(f"{name}: {reason}" for name, reason in sorted(reasons.items()))
                    + ". Put that right and submit the run again: it goes on from here."
                )
        return state

    def connected(self, transport: Transport, nodes: Mapping[str, int], names: Iterable[str]) -> dict[str, int]:
        """Find a site that came back under another node; the others stay where they are."""
        online = set(transport.nodes())
        here = {name: node for name, node in nodes.items() if node in online}
        strangers = sorted(online - set(here.values()))
        if strangers and set(names) - set(here):
            request = Content({"terms": self.roster.terms.to_json()})
            replies = transport.ask("enrol", dict.fromkeys(strangers, request), self.flower.enrol_timeout)
            for node, reply in sorted(replies.items()):
                name = None if isinstance(reply, str) else reply.values.get("site")
                if isinstance(name, str) and name in self.roster.infos:
                    here.setdefault(name, node)
        return here


def _update(name: str, reply: Content, number: int) -> ClientUpdate:
    """Read an update; one that is none is an error that says why."""
    if reply.values.get("kind") == "refused":
        raise GlocalfairError(reply.reason)
    if reply.value("kind", str) != "update" or reply.value("site", str) != name:
        raise GlocalfairError(f"a reply of kind {reply.values['kind']!r} from {reply.values.get('site')!r}")
    if reply.value("round", int) != number:
        raise GlocalfairError(f"an update for round {reply.values['round']}, expected {number}")
    return ClientUpdate(name, reply.array("weights"), reply.value("examples", int), reply.payload)


def _of_type(updates: list[ClientUpdate], dtype: str) -> tuple[list[ClientUpdate], dict[str, str]]:
    wrong = {
        u.client: f"weights of type {u.weights.dtype}, expected {dtype}" for u in updates if u.weights.dtype != dtype
    }
    return [u for u in updates if u.client not in wrong], wrong
