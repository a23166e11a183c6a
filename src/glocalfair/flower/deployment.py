"""A whole run on a deployment, as the coordinator sees it: enrol, train, hand out the final model, write the result."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glocalfair import __version__
from glocalfair import config as configuration
from glocalfair.bundle import NAME as BUNDLE
from glocalfair.bundle import Bundle
from glocalfair.config import Config
from glocalfair.data.encoder import Encoder
from glocalfair.data.frame.reading import read as read_table
from glocalfair.engines.checks import Expected, foreign
from glocalfair.errors import GlocalfairError
from glocalfair.flower.coordinator import Coordinator
from glocalfair.flower.enrolment import Roster, Tell, enrol
from glocalfair.flower.schema import PublicSchema
from glocalfair.flower.settings import FlowerConfig, Terms, read
from glocalfair.flower.site import TEST_COUNTS
from glocalfair.flower.transport import Reply, Transport
from glocalfair.flower.wire import Content
from glocalfair.layout import Layout
from glocalfair.lock import locked
from glocalfair.metrics import summarise, tables
from glocalfair.metrics.counts import joint
from glocalfair.metrics.tables import Tables
from glocalfair.models import Factory
from glocalfair.privacy import check as check_privacy
from glocalfair.privacy import summary
from glocalfair.runs import RunDirectory
from glocalfair.types import Attribute, Floats
from glocalfair.vision.pretrained import load_pretrained

ORPHAN = 120.0
"""Seconds that a run submitted again waits for the app of the one before to end."""


@dataclass(frozen=True, eq=False)
class Plan:
    """The coordinator's file with everything that follows from it."""

    config: Config
    flower: FlowerConfig
    schema: PublicSchema
    module: torch.nn.Module
    folder: Path

    @classmethod
    def load(cls, path: Path, factory: Factory | None = None) -> Plan:
        """Read the file; mistakes show before anybody is asked to train."""
        config, flower = read(path)
        schema = PublicSchema.load(path.parent / flower.schema)
        if schema.pictures is not None and (flower.test is not None or flower.standardise != "schema"):
            raise GlocalfairError("'flower.test' and 'flower.standardise' are for tables. Leave them out for pictures.")
        module = Terms.of("", config, flower, None).made_model(schema.shape, factory)
        if config.model.pretrained:
            load_pretrained(module, path.parent / config.model.pretrained)
        plan = cls(config, flower, schema, module, path.parent)
        layout, method = plan.layout, plan.terms("").made_method()
        check_privacy(config.privacy, method, layout.statistics)
        return plan

    @property
    def layout(self) -> Layout:
        """The model's weights as a vector."""
        return Layout.of(self.module)

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The sensitive attributes."""
        return tuple(each.attribute for each in self.schema.frame.sensitive)

    def terms(self, run: str) -> Terms:
        """Return what the sites are told."""
        return Terms.of(run, self.config, self.flower, self.schema.to_dict())


def coordinate(
    transport: Transport, path: Path, run_dir: Path, factory: Factory | None = None, tell: Tell = print
) -> dict[str, Any]:
    """Run a deployment from its file to the result; called again with the same directory it goes on where it was.

    Parameters
    ----------
    transport
        The way to the sites.
    path
        The coordinator's file.
    run_dir
        Where the run is written.
    factory
        Makes the model, if it is none of the built-in ones.
    tell
        Called with a line for everything worth knowing.
    """
    plan = Plan.load(path, factory)
    # The app of a SuperLink that was killed takes some seconds to notice; the run submitted again waits for it to end.
    with locked(run_dir, patience=ORPHAN):
        directory = _directory(run_dir, plan.config)
        if directory.result.exists():
            tell(f"The run in '{run_dir}' is complete. For a new one choose another run-dir.")
            return directory.load_result()
        begun = time.perf_counter() - directory.seconds()
        state, known = directory.resume(), Roster.load(run_dir)
        method = plan.terms("").made_method()
        groups = method.groups(plan.attributes)
        new = plan.terms(secrets.token_hex(8))
        roster = enrol(transport, new, plan.flower, Expected(method, groups), known, tell)
        if known is None:
            roster.save(run_dir)
        coordinator = Coordinator(plan.config, plan.flower, method, roster, groups, plan.layout.trainable)
        fresh = coordinator.start(plan.layout.flatten(plan.module).numpy())
        if state is not None:
            reason = foreign(state, fresh, plan.config.train.rounds)
            if reason is not None:
                raise GlocalfairError(f"The checkpoint in '{run_dir}' does not belong to this run: {reason}.")
            tell(f"Going on after round {state.round} of {plan.config.train.rounds}.")
        state = state or fresh
        state = coordinator.run(transport, state, directory, lambda record: tell(line(record, plan)))
        weights = coordinator.final_weights(state)
        counts = _hand_out(transport, coordinator, weights, tell)
        result = {
            "method": method.name,
            "engine": "flower",
            "seed": plan.config.run.seed,
            "seconds": round(time.perf_counter() - begun, 3),
            "rounds": state.round,
            "run_dir": str(run_dir),
            "versions": {"glocalfair": __version__, "torch": str(torch.__version__), "numpy": np.__version__},
            "sites": {name: info.examples for name, info in roster.infos.items()},
        }
        result |= summary(plan.config.privacy, method, coordinator.epsilon(state.round))
        bundle, saved = _bundle(plan, roster.terms, weights), directory.model
        about: dict[str, Any] = {"model": dict(bundle.model)}
        if plan.schema.pictures is None:
            saved = run_dir / BUNDLE
            bundle.save(saved)
        else:
            about["schema"] = plan.schema.to_dict()
        directory.save_model(bundle.tensors, about)
        result |= _measured(plan, roster.terms, bundle, counts, tell)
        directory.save_result(result)
        tell(f"Done after {state.round} rounds. The model: {saved}")
        return result


def line(record: Mapping[str, Any], plan: Plan) -> str:
    """Say in one line what happened in a round.

    Every site that is left out is named, with the reason.
    """
    lost = {**record["why"], **record["rejected"]}
    used = len(record["participants"]) - len(lost)
    text = f"Round {record['round']}/{plan.config.train.rounds}: {used} of {len(record['participants'])} sites"
    text += "".join(f"; without '{name}': {reason}" for name, reason in sorted(lost.items()))
    refused = record["server"].get("refused")
    return text + (f"; the model stays as it was: {refused}" if refused else "")


def _directory(run_dir: Path, config: Config) -> RunDirectory:
    if not RunDirectory(run_dir).config.exists():
        return RunDirectory.create(run_dir, config)
    directory = RunDirectory.open(run_dir)
    if directory.config.read_text(encoding="utf-8") != configuration.dump(configuration.to_mapping(config)):
        raise GlocalfairError(
            f"The run in '{run_dir}' was begun with other settings. Put them back, or choose another run-dir."
        )
    return directory


def _hand_out(
    transport: Transport, coordinator: Coordinator, weights: Floats, tell: Tell
) -> dict[str, np.ndarray[Any, Any]]:
    """Send everybody the final model; collect test counts of the sites that choose to send them."""
    roster = coordinator.roster
    nodes = coordinator.connected(transport, roster.nodes, roster.infos)
    request = Content.of({}, terms=roster.terms.to_json(), weights=np.asarray(weights))
    replies: dict[int, Reply] = {}
    if nodes:
        replies = transport.ask("finish", dict.fromkeys(nodes.values(), request), coordinator.flower.round_timeout)
    counts = {}
    for name in sorted(roster.infos):
        reply = replies[nodes[name]] if name in nodes else "it is not connected"
        if isinstance(reply, str) or reply.values.get("kind") != "finished":
            reason = reply if isinstance(reply, str) else reply.values.get("reason")
            tell(f"Site '{name}' has not confirmed the final model: {reason}")
        elif TEST_COUNTS in reply.arrays:
            counts[name] = reply.arrays[TEST_COUNTS]
    return counts


def _bundle(plan: Plan, terms: Terms, weights: Floats) -> Bundle:
    assert terms.encoder is not None
    return Bundle(
        plan.layout.named(weights),
        Encoder.from_dict(terms.encoder),
        plan.schema.frame,
        dict(terms.model),
        {"method": terms.method["name"], "seed": terms.seed, "version": __version__},
    )


def _measured(
    plan: Plan, terms: Terms, bundle: Bundle, counts: Mapping[str, np.ndarray[Any, Any]], tell: Tell
) -> dict[str, Any]:
    """Measure the final model on the coordinator's own table, else on counts that sites chose to share."""
    attributes = plan.attributes
    shape = (len(joint(attributes).values) if attributes else 1, 2, 2)
    good = {
        name: c for name, c in sorted(counts.items()) if c.shape == shape and c.dtype.kind == "i" and (c >= 0).all()
    }
    local = Tables(attributes, np.array(list(good.values()), dtype=np.int64).reshape(-1, *shape))
    if plan.flower.test is not None:
        dataset, lines = plan.schema.fit(read_table(plan.folder / plan.flower.test), "test")
        for each in lines:
            tell(f"Test table: {each}")
        module = bundle.module(factory=lambda inputs: plan.module)
        with torch.no_grad():
            x = torch.from_numpy(bundle.encoder.transform(dataset)).to(next(module.parameters()).dtype)
            predicted = (module(x).reshape(-1) > 0).numpy().astype(int)
        overall = tables(dataset.label, predicted, dataset.groups, dataset.attributes)
    elif good:
        overall = local.pooled()
        tell(f"Global figures are those of the test rows of {', '.join(good)}, which share their counts.")
    else:
        tell("No fairness figures here: give 'test' in [flower], or let sites share 'test_counts'.")
        return {}
    found = summarise(overall, local, list(good), seed=terms.seed)
    return {**found, "counts": {"global": overall.to_dict(), "local": local.to_dict()}}
