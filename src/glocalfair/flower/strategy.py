"""For those who have a Flower app already: a strategy for the server and one step for the client.

The same coordinator and the same site as in our own apps work inside; the loop around them is Flower's.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from torch import nn

from glocalfair.config import Config, RunConfig, TrainConfig
from glocalfair.engines.checks import Expected
from glocalfair.errors import GlocalfairError, unknown
from glocalfair.flower.apps import reply
from glocalfair.flower.coordinator import Coordinator
from glocalfair.flower.enrolment import enrol
from glocalfair.flower.settings import FlowerConfig, Terms, checked
from glocalfair.flower.site import Rows, Site
from glocalfair.flower.store import Store
from glocalfair.flower.transport import TYPES, GridTransport, read_reply
from glocalfair.flower.wire import to_records
from glocalfair.layout import Layout
from glocalfair.options import from_mapping
from glocalfair.types import Attribute, Client, Federation, Floats

OWN = {"name": "own:model"}


class FairStrategy(Strategy):
    """Any method of this package as a Flower strategy.

    Parameters
    ----------
    model
        The model that the clients train; its weights are what ``initial_arrays`` must hold.
    method
        A name of ``glocalfair list methods``, or a mapping of ``name`` and settings.
    attributes
        The sensitive attributes with their values, as the clients code them: ``{"sex": ["F", "M"]}``.
    settings
        Settings of the training (``lr``, ``epochs``, ``participation`` …), of the run (``seed``, ``dtype``) and of the
        deployment (`FlowerConfig`: ``sites``, ``min_sites``, ``quorum`` …).
    """

    def __init__(
        self,
        model: nn.Module,
        method: str | Mapping[str, Any] = "glocalfair",
        attributes: Mapping[str, Sequence[str]] | None = None,
        **settings: Any,
    ) -> None:
        self.layout = Layout.of(model)
        self.named = {"name": method} if isinstance(method, str) else dict(method)
        self.attributes = _attributes(attributes or {})
        parts: dict[type[Any], dict[str, Any]] = {TrainConfig: {"participation": 1.0}, RunConfig: {}, FlowerConfig: {}}
        names = {kind: {each.name for each in dataclasses.fields(kind)} for kind in parts}
        for key, value in settings.items():
            kind = next((kind for kind in parts if key in names[kind]), None)
            if kind is None or key == "rounds":
                raise unknown("setting", key, set().union(*names.values()) - {"rounds"})
            parts[kind][key] = value
        self._train, self._run = parts[TrainConfig], from_mapping(RunConfig, parts[RunConfig], "setting")
        self.flower = from_mapping(FlowerConfig, parts[FlowerConfig], "setting")
        # Mistakes show when the strategy is made, not when the sites wait for it.
        self._config(1)

    def _config(self, rounds: int) -> Config:
        train = from_mapping(TrainConfig, {**self._train, "rounds": rounds}, "setting")
        return checked(Config(data={"name": "sites"}, train=train, method=self.named, run=self._run))

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        *args: Any,
        **more: Any,
    ) -> Result:
        """Enrol the sites, then run Flower's own loop."""
        config = self._config(num_rounds)
        terms = dataclasses.replace(Terms.of(secrets.token_hex(8), config, self.flower, None), model=OWN)
        method = terms.made_method()
        groups = method.groups(self.attributes)
        roster = enrol(GridTransport(grid), terms, self.flower, Expected(method, groups), tell=_tell)
        self._others = {k: v for k, v in initial_arrays.items() if k not in self.layout.names}
        self._coordinator = Coordinator(config, self.flower, method, roster, groups, self.layout.trainable)
        self._state = self._coordinator.start(self._flat(initial_arrays))
        self._sent: dict[str, Message] = {}
        return super().start(grid, initial_arrays, num_rounds, timeout, *args, **more)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the global model, and what the method adds, to the sites that take part."""
        self._context = self._coordinator.context(server_round)
        online, nodes = set(grid.get_node_ids()), self._coordinator.roster.nodes
        self._sent = {
            name: Message(to_records(request), nodes[name], TYPES["train"])
            for name, request in self._coordinator.requests(self._state, self._context).items()
            if nodes.get(name) in online
        }
        return list(self._sent.values())

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Check and combine; after the last round return the model of the run (for some methods an average)."""
        by_id = {sent.metadata.message_id: name for name, sent in self._sent.items()}
        by_node = {sent.metadata.dst_node_id: name for name, sent in self._sent.items()}
        named = {}
        for message in replies:
            about = message.metadata
            name = by_id.get(about.reply_to_message_id) or by_node.get(about.src_node_id)
            if name is not None:
                named[name] = read_reply(message)
        self._state, record = self._coordinator.receive(self._state, self._context, named)
        for name, reason in {**record["why"], **record["rejected"]}.items():
            _tell(f"Round {server_round}: without '{name}': {reason}")
        over = server_round == self._coordinator.config.train.rounds
        weights = self._coordinator.final_weights(self._state) if over else self._state.server.weights
        lost = len(record["why"]) + len(record["rejected"])
        return self._arrays(weights), MetricRecord({"sites": len(self._context.participants) - lost, "lost": lost})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send nothing: what a method needs to know rides with the update."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Return nothing."""
        return None

    def summary(self) -> None:
        """Log the method and what it makes a site disclose."""
        method = self._coordinator.method
        _tell(f"{method.name}: {method.summary}. Sites send: {'; '.join(each.text for each in method.discloses())}.")

    def _flat(self, arrays: ArrayRecord) -> Floats:
        for name, shape in zip(self.layout.names, self.layout.shapes, strict=True):
            if name not in arrays or tuple(arrays[name].shape) != shape:
                raise GlocalfairError(
                    f"'initial_arrays' must hold '{name}' of shape {shape}: ArrayRecord(model.state_dict())."
                )
        return self.layout.join({name: arrays[name].numpy() for name in self.layout.names})

    def _arrays(self, weights: Floats) -> ArrayRecord:
        return ArrayRecord({**{name: Array(a) for name, a in self.layout.named(weights).items()}, **self._others})


def client_step(
    message: Message,
    context: Context,
    model: nn.Module,
    x: Any,
    y: Any,
    groups: Any = None,
    attributes: Mapping[str, Sequence[str]] | None = None,
    share: Iterable[str] | None = None,
) -> Message:
    """Answer any message of `FairStrategy` on the client's own rows.

    Parameters
    ----------
    message, context
        As Flower gives them. The node config names the ``site`` and the folder of its ``state``; in a simulation
        they follow from the partition.
    model
        A model of the same make as the server's; its weights do not matter.
    x, y
        Inputs ``[rows, …]`` and labels 0 or 1.
    groups
        Integer codes ``[rows, attributes]`` of the sensitive attributes; one column may come as a vector.
    attributes
        The sensitive attributes with their values, the same as the server's.
    share
        Kinds of things that may leave the site; None: whatever the method declares.
    """
    node = context.node_config
    name = str(node.get("site") or f"site-{int(node.get('partition-id', 0)):04d}")
    folder = Path(str(node.get("state") or Path("state") / str(context.run_id) / name))
    inputs, labels = np.asarray(x), np.asarray(y).astype(np.int64).reshape(-1)
    known = _attributes(attributes or {})
    codes = np.zeros((len(labels), 0), dtype=np.int64) if groups is None else np.asarray(groups).astype(np.int64)
    codes = codes.reshape(len(labels), -1)
    if codes.shape[1] != len(known) or len(inputs) != len(labels) or not np.isin(labels, (0, 1)).all():
        raise GlocalfairError(
            f"'x', 'y' and 'groups' must have a row for each person, 'y' only 0 and 1, and 'groups' a column for each "
            f"attribute. Got shapes {inputs.shape}, {labels.shape}, {codes.shape} for {len(known)} attributes."
        )
    everybody, nobody = np.arange(len(labels)), np.empty(0, dtype=np.int64)
    federation = Federation(name, inputs, labels, codes, known, (Client(name, everybody, nobody, nobody),), nobody)
    site = Site(
        name,
        Store(folder),
        lambda terms: Rows(federation),
        None if share is None else frozenset(share),
        factory=lambda inputs: copy.deepcopy(model),
    )
    return reply(message, site)


def _attributes(named: Mapping[str, Sequence[str]]) -> tuple[Attribute, ...]:
    return tuple(Attribute(name, tuple(map(str, values))) for name, values in named.items())


def _tell(text: str) -> None:
    logging.getLogger("flwr").info(text)
