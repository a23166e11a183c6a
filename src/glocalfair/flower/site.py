"""A site: one organisation's half of a round, on its own rows, with its own constraints and its own disk.

It runs the same code as the simulator (`Simulator.clients_round`), for itself alone. Whatever it is sent, it answers:
with what was asked for, or with the reason why not. Diagnostics go to its own log and nowhere else.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from glocalfair.bundle import NAME as BUNDLE
from glocalfair.bundle import Bundle
from glocalfair.config import RunConfig, TrainConfig
from glocalfair.data.encoder import Encoder
from glocalfair.engines.rounds import threads
from glocalfair.engines.simulator import Simulator
from glocalfair.errors import GlocalfairError
from glocalfair.flower.schema import PublicSchema
from glocalfair.flower.settings import Terms
from glocalfair.flower.store import Store
from glocalfair.flower.wire import Content
from glocalfair.local.network import network
from glocalfair.methods.base import Method
from glocalfair.metrics import tables
from glocalfair.models import Factory
from glocalfair.options import from_mapping
from glocalfair.privacy import NoiseSource, PrivacyConfig, secure_source
from glocalfair.privacy import check as check_privacy
from glocalfair.runs import RunDirectory
from glocalfair.types import Broadcast, ClientUpdate, Federation, Floats, RoundContext, TrainingSettings

Kind = Literal["enrol", "train", "finish"]
COLUMN_TOTALS, TEST_COUNTS = "column_totals", "test_counts"


@dataclass(frozen=True, eq=False)
class Rows:
    """A site's rows, ready for a model: a federation with one client."""

    federation: Federation
    totals: Floats | None = None
    """Totals of the numeric columns, if the terms ask for them."""
    lines: tuple[str, ...] = ()
    """What of the table does not fit the schema."""


@dataclass(frozen=True, eq=False)
class Site:
    """One organisation.

    Attributes
    ----------
    name
        The name that the coordinator knows it by.
    store
        Its own disk.
    rows
        Makes its rows ready under some terms.
    share
        Kinds of things that may leave it (`Method.discloses`); None: whatever the method declares.
    overrides
        Its own constraints: any of the settings that a method lets a client override.
    factory
        Makes the model, if it is none of the built-in ones.
    noise
        Where the noise of ``[privacy]`` comes from.
    """

    name: str
    store: Store
    rows: Callable[[Terms], Rows]
    share: frozenset[str] | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    factory: Factory | None = None
    noise: NoiseSource = secure_source

    def answer(self, kind: Kind, request: Content) -> Content:
        """Answer a request; a mistake becomes a refusal that says why, to both sides."""
        try:
            return {"enrol": self._enrol, "train": self._train, "finish": self._finish}[kind](request)
        except GlocalfairError as error:
            reason = str(error)
        except Exception as error:
            # The text of such an error may quote rows. It stays here.
            reason = f"{type(error).__name__} at the site; its log says more"
            self.store.log(event="error", kind=kind, trace=traceback.format_exc())
        self.store.log(event="refused", kind=kind, reason=reason)
        return Content({"kind": "refused", "site": self.name, "reason": reason})

    # ---------------------------------------------------------------------------------------- messages

    def _enrol(self, request: Content) -> Content:
        terms = Terms.from_json(request.value("terms", str))
        method = self._method(terms)
        rows = self.rows(terms)
        sim = self._simulator(terms, rows, method)
        info = sim.infos[self.name]
        sent = {"examples": info.examples}
        totals = {} if rows.totals is None else {COLUMN_TOTALS: rows.totals}
        declared = [f"{each.key}: {each.text}" for each in method.discloses()]
        self.store.log(event="enrolled", run=terms.run, discloses=declared, does_not_fit=rows.lines, **sent)
        return Content.of(info.payload, kind="enrolled", site=self.name, **sent, **totals)

    def _train(self, request: Content) -> Content:
        terms = Terms.from_json(request.value("terms", str))
        number, used = request.value("round", int), request.value("used", int)
        if not 0 <= used < number:
            raise GlocalfairError(f"A round {number} cannot follow on round {used}.")
        method, digest = self._method(terms), request.digest()
        known = self.store.reply(terms.run, number, digest)
        if known is not None:
            return known
        state = self.store.state(terms.run, used)
        sim = self._simulator(terms, self.rows(terms), method)
        sent = Broadcast(_weights(request, sim), request.payload)
        context = self._context(request, terms, sim)
        with threads(sim.network):
            updates, after, told, losses = sim.clients_round({self.name: sent}, {self.name: state}, context)
        reply = self._reply(method, updates[0], number)
        self.store.save(terms.run, number, digest, after[self.name], reply)
        loss, told_here = losses[self.name], told.get(self.name)
        self.store.log(event="trained", run=terms.run, round=number, loss=loss, diagnostics=told_here)
        # The coordinator had saved `used` when it sent this: it never asks for what was before.
        self.store.forget(terms.run, before=used)
        return reply

    def _finish(self, request: Content) -> Content:
        """Keep the final model and measure it on the site's own test rows; the counts leave only if that is allowed."""
        terms = Terms.from_json(request.value("terms", str))
        rows = self.rows(terms)
        sim = self._simulator(terms, rows, self._method(terms))
        weights, client, f = _weights(request, sim), sim.clients[self.name], rows.federation
        predicted = (sim.trainer.logits(weights, client.test) > 0).astype(int)
        counted = tables(f.y[client.test], predicted, f.groups[client.test], f.attributes)
        self.store.log(event="finished", run=terms.run, test=counted.to_dict())
        self._keep(terms, sim, weights)
        allowed = self.share is not None and TEST_COUNTS in self.share
        return Content.of({}, kind="finished", site=self.name, **({TEST_COUNTS: counted.counts[0]} if allowed else {}))

    # ------------------------------------------------------------------------------------------- parts

    def _method(self, terms: Terms) -> Method:
        """Make the method with the site's own constraints; refuse it if it sends more than the site allows."""
        if ":" in str(terms.method.get("name")):
            # An import runs code; what a coordinator names must not be imported here.
            raise GlocalfairError(f"Site '{self.name}' imports no code for the method '{terms.method['name']}'.")
        overrides: dict[str, Any] = {}
        if self.overrides:
            if "overrides" not in terms.made_method().__dataclass_fields__:
                raise GlocalfairError(
                    f"Site '{self.name}' has constraints of its own, which method '{terms.method.get('name')}' "
                    "cannot take. Leave them out of its node config, or use method 'glocalfair'."
                )
            overrides["overrides"] = {self.name: dict(self.overrides)}
        method = terms.made_method(overrides)
        kinds = {each.kind: each.text for each in method.discloses()}
        if terms.standardise == "totals":
            kinds |= {COLUMN_TOTALS: "count, sum and sum of squares of each numeric column, once"}  # type: ignore[dict-item]
        if self.share is not None:
            for kind in sorted(set(kinds) - self.share):
                raise GlocalfairError(
                    f"Site '{self.name}' does not send '{kind}' ({kinds[kind]}), which method '{method.name}' asks "
                    f"for. It sends: {', '.join(sorted(self.share))}."
                )
        return method

    def _simulator(self, terms: Terms, rows: Rows, method: Method) -> Simulator:
        f = rows.federation
        if self.name not in {client.name for client in f.clients if len(client.train)}:
            raise GlocalfairError(f"Site '{self.name}' has no training row.")
        module = terms.made_model(f.x.shape[1:], self.factory)
        train = from_mapping(TrainConfig, {"class_weight": terms.class_weight})
        run = from_mapping(RunConfig, {"seed": terms.seed, "dtype": terms.dtype})
        privacy = from_mapping(PrivacyConfig, terms.privacy, "setting of the privacy")
        net = network(module)
        check_privacy(privacy, method, net.layout.statistics)
        return Simulator(f, net, method, train, run, privacy=privacy, noise=self.noise)

    def _context(self, request: Content, terms: Terms, sim: Simulator) -> RoundContext:
        return RoundContext(
            round=request.value("round", int),
            rounds=request.value("rounds", int),
            seed=terms.seed,
            participants=(self.name,),
            training=from_mapping(TrainingSettings, json.loads(request.value("training", str))),
            trainable=sim.network.layout.trainable,
        )

    def _reply(self, method: Method, update: ClientUpdate, number: int) -> Content:
        declared = {each.key for each in method.discloses() if not each.once}
        more = set(update.payload) - declared
        if more:
            raise GlocalfairError(f"Method '{method.name}' would send {sorted(more)}, which it does not declare.")
        return Content.of(
            update.payload,
            kind="update",
            site=self.name,
            round=number,
            examples=update.examples,
            weights=np.asarray(update.weights),
        )

    def _keep(self, terms: Terms, sim: Simulator, weights: Floats) -> None:
        if terms.schema is None or terms.encoder is None:
            return
        tensors = sim.network.layout.named(weights)
        schema, about = PublicSchema.from_dict(terms.schema), {"method": sim.method.name, "seed": terms.seed}
        if schema.pictures is not None:
            saved = {"model": dict(terms.model), "schema": terms.schema, **about}
            RunDirectory(self.store.folder).save_model(tensors, saved)
            return
        encoder = Encoder.from_dict(terms.encoder)
        bundle = Bundle(tensors, encoder, schema.frame, dict(terms.model), {**about, "run": terms.run})
        bundle.save(self.store.folder / BUNDLE)


def _weights(request: Content, sim: Simulator) -> Floats:
    weights, size = request.array("weights"), sim.network.layout.size
    if weights.shape != (size,) or weights.dtype.name != sim.run.dtype:
        raise GlocalfairError(
            f"The received weights have shape {weights.shape} and type {weights.dtype}, the model needs ({size},) and "
            f"{sim.run.dtype}. Coordinator and site build different models."
        )
    if not np.isfinite(weights).all():
        raise GlocalfairError("The received weights are not finite.")
    return weights
