"""The embedded engine: a whole federation in one process, the cohort of a round as one tensor program.

`Simulator.step` takes the state before a round and returns the state after it with the round's record; all randomness
comes from (seed, round, client, purpose). So a run is the same for any order of clients and any number of workers,
and continues from a saved state as if it had never stopped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from math import ceil
from typing import Any, Literal

import numpy as np
import torch

from glocalfair.config import RunConfig, ServerConfig, TrainConfig
from glocalfair.engines import rounds
from glocalfair.engines.checks import Expected, accept, unusable
from glocalfair.engines.divergence import divergence, mean_loss
from glocalfair.engines.state import SimulationState
from glocalfair.errors import GlocalfairError
from glocalfair.local.network import Network
from glocalfair.local.trainer import Job, Trainer, rows_of
from glocalfair.memory import keep_freed
from glocalfair.methods.base import Method
from glocalfair.methods.losses import cross_entropy
from glocalfair.metrics import eod, tables
from glocalfair.metrics.counts import Counts, count_each, intersection
from glocalfair.metrics.tables import Tables
from glocalfair.privacy import NoiseSource, PrivacyConfig, privatise, seeded_normal, spent
from glocalfair.rng import generator
from glocalfair.types import (
    Broadcast,
    Client,
    ClientData,
    ClientInfo,
    ClientState,
    ClientUpdate,
    Federation,
    Floats,
    Ints,
    Log,
    Received,
    RoundContext,
)

_EMPTY: Log = {}
_MANY = 10_000
_TOGETHER = 1 << 20
"""So many predictions are counted at a time."""


@dataclass(frozen=True, eq=False)
class Simulator:
    """A federation, a network, a method and the settings of a run."""

    federation: Federation
    network: Network
    method: Method
    train: TrainConfig
    run: RunConfig
    server: ServerConfig = field(default_factory=ServerConfig)
    privacy: PrivacyConfig = field(default_factory=PrivacyConfig)
    noise: NoiseSource = seeded_normal
    """Where noise on updates comes from; a site of a deployment needs `glocalfair.privacy.secure_source`."""

    @cached_property
    def trainer(self) -> Trainer:
        """The trainer over all rows of the federation."""
        f = self.federation
        weights = self.train.class_weight
        keep_freed()
        return Trainer(
            self.network,
            rows_of(f.x, f.y, f.groups, [len(a.values) for a in f.attributes], self.dtype, self.network.device),
            cohort=self.run.cohort,
            workers=self.run.workers,
            class_weight=(weights[0], weights[1]) if isinstance(weights, tuple) else weights,
        )

    @property
    def dtype(self) -> torch.dtype:
        """Precision of weights and arithmetic."""
        return torch.float64 if self.run.dtype == "float64" else torch.float32

    @cached_property
    def clients(self) -> dict[str, Client]:
        """Clients that can train, by name, sorted."""
        return {c.name: c for c in sorted(self.federation.clients, key=lambda c: c.name) if len(c.train)}

    @cached_property
    def _names(self) -> list[str]:
        return list(self.clients)

    @cached_property
    def infos(self) -> dict[str, ClientInfo]:
        """What each client said when it enrolled."""
        infos = {data.name: self.method.enrol(data) for data in self.data(list(self.clients.values()))}
        if len(infos) > _MANY:
            # Most of them do not come up again for long.
            self._data.clear()
        for name, info in infos.items():
            reason = self.expected.enrolment(info)
            if reason is not None:
                raise GlocalfairError(f"Client '{name}' cannot take part: {reason}.")
        return infos

    @cached_property
    def expected(self) -> Expected:
        """What an honest client sends."""
        return Expected(self.method, self.method.groups(self.federation.attributes))

    @cached_property
    def validation(self) -> Ints:
        """Row numbers of all validation parts."""
        parts = [c.validation for c in self.clients.values()]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    @cached_property
    def _validation_ends(self) -> list[int]:
        """Where each client's part of them ends."""
        return list(accumulate(len(c.validation) for c in self.clients.values()))

    @cached_property
    def _latest(self) -> list[tuple[Floats, Floats]]:
        """The model that was validated last, and its logits."""
        return []

    def _validation_logits(self, weights: Floats) -> Floats:
        """Evaluate a model on all validation rows; kept, because the next round starts from it."""
        if not (self._latest and self._latest[0][0] is weights):
            self._latest[:] = [(weights, self.trainer.logits(weights, self.validation))]
        return self._latest[0][1]

    @cached_property
    def _validation_rows(self) -> tuple[Counts, Counts, int]:
        """Label and combination of groups of each validation row, and how many combinations there are."""
        f, rows = self.federation, self.validation
        codes, crossed = intersection(f.groups[rows], f.attributes)
        return f.y[rows].astype(np.int64), codes, len(crossed.values)

    def data(self, clients: Sequence[Client], part: Literal["train", "validation"] = "train") -> list[ClientData]:
        """Return what the method may know of clients; kept, because it is the same in every round."""
        f, new = self.federation, [client for client in clients if (client.name, part) not in self._data]
        if new:
            # All at once: to fetch a few rows takes as long as to ask for them.
            rows = [getattr(client, part) for client in new]
            every = np.concatenate(rows)
            whole = ClientData(part, f.y.take(every), f.groups.take(every, 0), f.attributes)
            for data in whole.cut([client.name for client in new], [len(held) for held in rows]):
                self._data[data.name, part] = data
        return [self._data[client.name, part] for client in clients]

    @cached_property
    def _data(self) -> dict[tuple[str, str], ClientData]:
        return {}

    def start(self, weights: Floats) -> SimulationState:
        """Return the state before round 1."""
        numpy_dtype = np.float64 if self.run.dtype == "float64" else np.float32
        return SimulationState(0, self.method.init(weights.astype(numpy_dtype), self.infos))

    def context(self, number: int) -> RoundContext:
        """Return what everybody knows about a round: who takes part and how to train."""
        layout = self.network.layout
        return rounds.round_context(self._names, number, self.train, self.run.seed, layout.trainable, self.server)

    def step(self, state: SimulationState) -> tuple[SimulationState, dict[str, Any]]:
        """Run one round."""
        context = self.context(state.round + 1)
        updates, clients, diagnostics, losses = self.train_clients(state, context)
        failed = [u.client for u in updates if self._drops_out(context.round, u.client)]
        arrived = [u for u in updates if u.client not in failed]
        asked = {name: self.infos[name].examples for name in context.participants}
        usable, rejected = accept(arrived, state.server.weights, asked, self.expected, self.server.max_norm)
        server, log = state.server, _EMPTY
        if usable:
            server, log = self.method.server_round(state.server, usable, context)
            reason = unusable(server)
            if reason is not None:
                server, log = state.server, {"refused": reason}
        record: dict[str, Any] = {
            "round": context.round,
            "participants": list(context.participants),
            "failed": failed,
            "rejected": rejected,
            "loss": mean_loss(losses, asked),
            "server": log,
        }
        if self.privacy.on:
            record["privacy"] = {"epsilon": self.epsilon(context.round), "delta": self.privacy.delta}
        if self._evaluates(context.round):
            record["clients"] = diagnostics
        # A client that failed or was rejected has lost this round; its state is that of the round before.
        kept = {name: s for name, s in clients.items() if name not in failed and name not in rejected}
        after = replace(state, round=context.round, server=server, clients={**state.clients, **kept})
        after, record = self._observe(after, record)
        if "gini" in log and self._watches(after):
            found = self.validate_all([u.weights for u in usable])
            record["client_models"] = {u.client: told for u, told in zip(usable, found, strict=True)}
        validation = record.get("validation")
        seen = divergence(
            updates,
            losses,
            server.weights[: context.trainable],
            validation and validation["loss"],
            min(2, len(self.clients)),
        )
        if not seen:
            return after, record
        record["diverged"] = seen
        if validation:
            record["validation"] = self.validate(state.server.weights)
        return replace(state, round=context.round, diverged=seen), record

    def train_clients(
        self, state: SimulationState, context: RoundContext
    ) -> tuple[list[ClientUpdate], dict[str, ClientState], dict[str, Any], dict[str, float]]:
        """Run the clients' half of a round: updates, new client states, diagnostics and mean training losses."""
        sent = {name: self.method.broadcast(state.server, name, context) for name in context.participants}
        return self.clients_round(sent, state.clients, context)

    def clients_round(
        self, sent: Mapping[str, Broadcast], states: Mapping[str, ClientState], context: RoundContext
    ) -> tuple[list[ClientUpdate], dict[str, ClientState], dict[str, Any], dict[str, float]]:
        """Do what the clients do with what was sent to them; a site of a deployment runs this for itself alone."""
        method, names = self.method, context.participants
        received = self._received(sent, context)
        before = {name: states.get(name, {}) for name in names}
        planned = method.plans([(sent[name], received[name], before[name]) for name in names])
        plans = dict(zip(names, planned, strict=True))
        jobs = [
            Job(
                name,
                sent[name].weights,
                plans[name],
                self.clients[name].train,
                self.clients[name].validation,
                self.run.seed,
                context.round,
            )
            for name in names
        ]
        trained = self.trainer.train(jobs, context.training)
        updates, after, diagnostics = [], {}, {}
        for name, result in zip(names, trained, strict=True):
            update, after[name], told = method.finish(plans[name], result, received[name], before[name])
            if self.privacy.on:
                normal = self.noise(self.run.seed, context.round, name)
                update, hidden = privatise(update, sent[name].weights, context.trainable, self.privacy, normal)
                told = {**told, "privacy": hidden}
            updates.append(update)
            if told:
                diagnostics[name] = told
        return updates, after, diagnostics, {name: result.loss for name, result in zip(names, trained, strict=True)}

    def _received(self, sent: Mapping[str, Broadcast], context: RoundContext) -> dict[str, Received]:
        """Let each client look at the global model on its own rows, if the method wants to: one pass for all."""
        chosen = [self.clients[name] for name in context.participants]

        def told(data: ClientData, *seen: Any) -> Received:
            # By their places, as `Received` names them: this is done for every client.
            weights = sent[data.name].weights
            logits, validation, held_out = seen or (None, None, None)
            about = data, context.training, context.round
            return Received(*about, logits, validation, held_out, context.rounds, weights, context.trainable)

        known = self.data(chosen)
        if not self.method.uses_received:
            return {data.name: told(data) for data in known}
        weights = [sent[c.name].weights for c in chosen]
        # All clients get the same model, whatever a method adds to it.
        assert all(each is weights[0] for each in weights)
        # Who evaluated that model has seen it on the validation rows. It must not depend on whether the run was
        # interrupted since then: a logit's last bits may differ with the rows beside it.
        evaluated = context.round > 1 and self._evaluates(context.round - 1)
        parts = [c.train for c in chosen] + ([] if evaluated else [c.validation for c in chosen])
        logits = self.trainer.logits(weights[0], np.concatenate(parts))
        ends = np.cumsum([len(part) for part in parts]).tolist()
        seen = [logits[end - len(part) : end] for part, end in zip(parts, ends, strict=True)]
        if evaluated:
            everybody = self._validation_logits(weights[0])
            ends = [self._validation_ends[bisect_left(self._names, c.name)] for c in chosen]
            seen += [everybody[end - len(c.validation) : end] for c, end in zip(chosen, ends, strict=True)]
        each = zip(known, seen[: len(chosen)], self.data(chosen, "validation"), seen[len(chosen) :], strict=True)
        return {data.name: told(data, logits, *held_out) for data, logits, *held_out in each}

    def _drops_out(self, number: int, client: str) -> bool:
        if self.train.dropout == 0:
            return False
        return bool(generator(self.run.seed, number, client, "dropout").random() < self.train.dropout)

    def _observe(self, state: SimulationState, record: dict[str, Any]) -> tuple[SimulationState, dict[str, Any]]:
        """Evaluate on validation data when due, and keep what averaging and early stopping need."""
        t = self.train
        weights = state.server.weights
        state = rounds.remember(state, self.averaged, t.rounds)
        if len(self.validation) and self._evaluates(state.round):
            record["validation"] = self.validate(weights)
            if t.early_stopping:
                loss = record["validation"]["loss"]
                if loss < state.best_loss:
                    state = replace(state, best=weights, best_loss=loss, patience=0)
                else:
                    state = replace(state, patience=state.patience + 1)
        return state, record

    def epsilon(self, rounds: int) -> float:
        """Return ε after so many rounds; it follows from the schedule, so that a continued run has the same."""
        return spent(self.privacy, self._schedule[:rounds], len(self.clients)) if self.privacy.noisy else np.inf

    @cached_property
    def _schedule(self) -> list[tuple[str, ...]]:
        return [self.context(number).participants for number in range(1, self.train.rounds + 1)]

    def _evaluates(self, number: int) -> bool:
        return number == self.train.rounds or number % self.run.evaluate_every == 0

    def _watches(self, state: SimulationState) -> bool:
        """Whether the clients' own models are measured: all of them on everybody's validation rows."""
        if not self.run.evaluate_clients or not len(self.validation) or not self._evaluates(state.round):
            return False
        # The first round with an evaluation in each stretch of so many, and the last of all.
        return state.round % self._watches_every < self.run.evaluate_every or self.finished(state)

    @cached_property
    def _watches_every(self) -> int:
        trained = sum(len(client.train) for client in self.clients.values())
        return self.run.evaluate_clients_every or ceil(4 * len(self.validation) * len(self.clients) / trained)

    def finished(self, state: SimulationState) -> bool:
        """Whether the run is over: all rounds done, stopped early, or diverged."""
        stop = self.train.early_stopping
        return state.round >= self.train.rounds or bool(state.diverged or (stop and state.patience >= stop))

    def final_weights(self, state: SimulationState) -> Floats:
        """Return the model of the run: the last, the mean of the last, or the best on validation data."""
        return rounds.final_weights(state, self.averaged)

    @property
    def averaged(self) -> int:
        """Over how many of the last models the final one is averaged."""
        return rounds.averaged(self.method, self.train)

    def validate(self, weights: Floats) -> dict[str, Any]:
        """Return loss, accuracy, positive rate and EOD on all clients' validation rows."""
        return self._figures(self._validation_logits(weights)[None])[0]

    def validate_all(self, models: Sequence[Floats]) -> list[dict[str, Any]]:
        """Validate several models: rows are gathered and counted for all of them at once."""
        together = max(1, _TOGETHER // max(1, len(self.validation)))
        parts = [models[i : i + together] for i in range(0, len(models), together)]
        return [told for part in parts for told in self._figures(self.trainer.logits_of(part, self.validation))]

    def _figures(self, logits: Floats) -> list[dict[str, Any]]:
        """Return what is told of each model, from its logits on all validation rows."""
        y, codes, combinations = self._validation_rows
        attributes, accepted = self.federation.attributes, logits > 0
        counts = Tables(attributes, count_each(y, accepted, codes, combinations))
        gaps = {a.name: eod(counts.table(a.name)).tolist() for a in attributes}
        figures = zip(
            np.mean(cross_entropy(logits, y), axis=1).tolist(),
            np.mean(accepted == y, axis=1).tolist(),
            np.mean(accepted, axis=1).tolist(),
            strict=True,
        )
        return [
            {
                "loss": loss,
                "accuracy": right,
                "positive_rate": rate,
                "eod": {name: gap[k] for name, gap in gaps.items()},
            }
            for k, (loss, right, rate) in enumerate(figures)
        ]

    def test_tables(self, state: SimulationState, weights: Floats) -> tuple[Tables, Tables, list[str]]:
        """Count the final model's predictions on the global test set and on each client's own."""
        f = self.federation
        predicted = (self.trainer.logits(weights, f.test) > 0).astype(int)
        overall = tables(f.y[f.test], predicted, f.groups[f.test], f.attributes)
        names = list(self.clients)
        parts = [self.clients[name].test for name in names]
        rows = np.concatenate(parts)
        owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        logits = self.trainer.logits(weights, rows)
        if self.method.personal:
            for code, name in enumerate(names):
                own = state.clients.get(name, {}).get("personal")
                if isinstance(own, np.ndarray) and len(parts[code]):
                    logits[owner == code] = self.trainer.logits(own, parts[code])
        local = tables(f.y[rows], (logits > 0).astype(int), f.groups[rows], f.attributes, owner, len(names))
        return overall, local, names
