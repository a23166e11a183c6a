"""Who takes part: asked once, checked, and written down, so that a run goes on with the same sites."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from glocalfair.engines.checks import Expected
from glocalfair.errors import GlocalfairError
from glocalfair.flower.schema import PublicSchema
from glocalfair.flower.settings import FlowerConfig, Terms
from glocalfair.flower.site import COLUMN_TOTALS
from glocalfair.flower.transport import Reply, Transport
from glocalfair.flower.wire import Content
from glocalfair.runs import read_safetensors, write_atomically
from glocalfair.types import ClientInfo, Value

FILE = "enrolment.safetensors"
Tell = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Roster:
    """The sites of a run, by name."""

    terms: Terms
    infos: Mapping[str, ClientInfo]
    nodes: Mapping[str, int] = field(default_factory=dict)
    """Where each site is connected now."""

    def save(self, folder: Path) -> None:
        """Write terms and sites; nodes change with every connection."""
        from safetensors.numpy import save

        arrays: dict[str, np.ndarray[Any, Any]] = {}
        sites: dict[str, dict[str, Value]] = {}
        for place, (name, info) in enumerate(self.infos.items()):
            sites[name] = {"examples": info.examples}
            for key, value in info.payload.items():
                if isinstance(value, np.ndarray):
                    arrays[f"{place}/{key}"] = np.ascontiguousarray(value)
                else:
                    sites[name][f"payload.{key}"] = value
        about = {"terms": self.terms.to_json(), "sites": sites}
        write_atomically(folder / FILE, save(arrays, {"glocalfair": json.dumps(about)}))

    @classmethod
    def load(cls, folder: Path) -> Roster | None:
        """Read what `save` wrote, or None if there is nothing yet."""
        if not (folder / FILE).exists():
            return None
        arrays, about = read_safetensors(folder / FILE)
        infos = {}
        for place, (name, values) in enumerate(about["sites"].items()):
            payload: dict[str, Value] = {
                key.removeprefix("payload."): value for key, value in values.items() if key.startswith("payload.")
            }
            prefix = f"{place}/"
            payload |= {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
            infos[name] = ClientInfo(values["examples"], payload)
        return cls(Terms.from_json(about["terms"]), infos)


@dataclass
class _Desk:
    """Takes enrolments until there are enough."""

    terms: Terms
    flower: FlowerConfig
    expected: Expected
    wanted: frozenset[str]
    """Names that may enrol; empty for any."""
    tell: Tell
    infos: dict[str, ClientInfo] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    totals: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def take(self, node: int, reply: Reply) -> None:
        """Look at one reply; whoever cannot take part is named with the reason."""
        name = f"node {node}"
        try:
            if isinstance(reply, str):
                raise GlocalfairError(reply)
            name = reply.value("site", str) or name
            if reply.values.get("kind") == "refused":
                raise GlocalfairError(reply.reason)
            self._enter(name, node, reply)
        except GlocalfairError as error:
            self.refused[name] = str(error)
            self.tell(f"Site '{name}' does not take part: {error}")

    def _enter(self, name: str, node: int, reply: Content) -> None:
        if self.wanted and name not in self.wanted:
            raise GlocalfairError(f"it is not expected (expected: {', '.join(sorted(self.wanted))})")
        if name in self.infos:
            raise GlocalfairError(f"there is a site of this name already, at node {self.nodes[name]}")
        info = ClientInfo(reply.value("examples", int), reply.payload)
        problem = self.expected.enrolment(info)
        if problem:
            raise GlocalfairError(problem)
        if self.terms.standardise == "totals":
            assert self.terms.schema is not None
            self.totals[name] = _totals(reply, len(self.terms.schema["numeric"]), info.examples)
        self.infos[name], self.nodes[name] = info, node
        self.refused.pop(name, None)
        self.tell(f"Site '{name}' has enrolled with {info.examples:,} examples.")

    @property
    def complete(self) -> bool:
        """Whether nobody is waited for any more."""
        if self.wanted:
            return self.wanted <= {*self.infos, *self.refused}
        return len(self.infos) >= self.flower.min_sites


def _totals(reply: Content, columns: int, examples: int) -> np.ndarray[Any, Any]:
    found = reply.array(COLUMN_TOTALS)
    if found.shape != (columns, 3) or found.dtype != np.float64 or not np.isfinite(found).all():
        raise GlocalfairError(f"'{COLUMN_TOTALS}' must be finite numbers of shape ({columns}, 3)")
    if (found[:, 0] < 0).any() or (found[:, 0] > examples).any() or (found[:, 2] < 0).any():
        raise GlocalfairError(f"'{COLUMN_TOTALS}' has impossible counts")
    return found


def enrol(
    transport: Transport,
    terms: Terms,
    flower: FlowerConfig,
    expected: Expected,
    known: Roster | None = None,
    tell: Tell = lambda line: None,
    pause: float = 1.0,
) -> Roster:
    """Ask every node that connects, until all are there or the time is over.

    Parameters
    ----------
    transport, terms, flower, expected
        The network, what to enrol for, how long to wait, and what an honest site says.
    known
        The sites of a run that goes on: they must be the same, with the same number of examples.
    tell
        Called with a line for each site.
    pause
        Seconds between two looks at who is connected.
    """
    wanted = frozenset(flower.sites if known is None else known.infos)
    desk = _Desk(terms if known is None else known.terms, flower, expected, wanted, tell)
    end = time.monotonic() + flower.enrol_timeout
    asked: set[int] = set()
    while not desk.complete:
        new = [node for node in transport.nodes() if node not in asked]
        left = end - time.monotonic()
        if left <= 0:
            break
        request = Content({"terms": desk.terms.to_json()})
        replies = transport.ask("enrol", dict.fromkeys(new, request), left) if new else {}
        for node, reply in sorted(replies.items()):
            desk.take(node, reply)
        # Whoever could not be reached is asked again.
        answered = {node for node, reply in replies.items() if not isinstance(reply, str)}
        asked |= answered
        if not answered:
            time.sleep(min(pause, left))
    missing = sorted(wanted - set(desk.infos))
    if len(desk.infos) < flower.min_sites:
        why = "; ".join(f"{name}: {reason}" for name, reason in sorted(desk.refused.items()))
        raise GlocalfairError(
            f"{len(desk.infos)} of at least {flower.min_sites} sites have enrolled within {flower.enrol_timeout:g} s"
            + (f", missing are {', '.join(missing)}" if missing else "")
            + (f". Refused: {why}" if why else "")
            + "."
        )
    for name in missing:
        tell(f"Site '{name}' is missing: {desk.refused.get(name, 'it has not connected')}.")
    return _roster(desk, known)


def _roster(desk: _Desk, known: Roster | None) -> Roster:
    if known is None:
        infos = dict(sorted(desk.infos.items()))
        return Roster(_encoded(desk.terms, desk.totals), infos, desk.nodes)
    for name, info in desk.infos.items():
        before = known.infos[name].examples
        if info.examples != before:
            raise GlocalfairError(
                f"Site '{name}' has {info.examples} examples, it began the run with {before}. Put its data back, or "
                "start a new run in another directory."
            )
    return Roster(known.terms, known.infos, desk.nodes)


def _encoded(terms: Terms, totals: Mapping[str, np.ndarray[Any, Any]]) -> Terms:
    """Add the encoder, which is known when all have enrolled."""
    if terms.schema is None:
        return terms
    schema = PublicSchema.from_dict(terms.schema)
    encoder = schema.encoder() if terms.standardise == "schema" else schema.standardised(totals.values())
    return replace(terms, encoder=encoder.to_dict())
