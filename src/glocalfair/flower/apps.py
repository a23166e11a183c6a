"""Ready-made apps for Flower: what ``glocalfair flower init`` writes uses these two."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from glocalfair.errors import GlocalfairError, unknown
from glocalfair.flower.deployment import coordinate
from glocalfair.flower.site import Site
from glocalfair.flower.store import Store
from glocalfair.flower.table import table_rows
from glocalfair.flower.transport import KINDS, GridTransport
from glocalfair.flower.wire import Content, from_records, to_records
from glocalfair.models import Factory

NODE_KEYS = ("site", "data", "state", "share", "schema", "constraints", "mode", "tau-fnr", "tau-fpr")
SIMULATION_KEYS = ("partition-id", "num-partitions")


def server_app(path: Path, factory: Factory | None = None) -> ServerApp:
    """Make the coordinator's app.

    Parameters
    ----------
    path
        The coordinator's file; `FlowerConfig` and ``docs/flower.md`` describe it.
    factory
        Makes the model from the number of inputs, if it is none of the built-in ones.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run_dir = Path(str(context.run_config.get("run-dir", "runs/flower"))).absolute()
        try:
            coordinate(GridTransport(grid), path, run_dir, factory, _tell)
        except GlocalfairError as error:
            _tell(f"Error: {error}")
            raise

    return app


def client_app(factory: Factory | None = None) -> ClientApp:
    """Make a site's app; what the site is comes from its ``--node-config``."""
    app = ClientApp()

    @app.query()
    @app.train()
    @app.evaluate()
    def answer(message: Message, context: Context) -> Message:
        try:
            site = site_of(context.node_config, context.run_config, factory)
        except GlocalfairError as error:
            _tell(f"Error: {error}")
            refused = Content({"kind": "refused", "site": "", "reason": str(error)})
            return Message(to_records(refused), reply_to=message)
        return reply(message, site)

    return app


def reply(message: Message, site: Site) -> Message:
    """Let a site answer a message."""
    try:
        request = from_records(message.content)
    except GlocalfairError as error:
        answer = Content({"kind": "refused", "site": site.name, "reason": f"A message that is none of ours: {error}"})
    else:
        answer = site.answer(KINDS[message.metadata.message_type.partition(".")[0]], request)
    if answer.values.get("kind") == "refused":
        _tell(f"Refused: {answer.values['reason']}")
    return Message(to_records(answer), reply_to=message)


def site_of(node: Mapping[str, Any], run: Mapping[str, Any], factory: Factory | None = None) -> Site:
    """Make the site that a node config describes; in a simulation a site for each file of ``simulation-data``."""
    if "data" not in node and "partition-id" in node:
        node = _simulated(node, run)
    for key in node:
        if key not in (*NODE_KEYS, *SIMULATION_KEYS):
            raise unknown("key in --node-config", key, NODE_KEYS)
    for key in ("site", "data"):
        if not node.get(key):
            raise GlocalfairError(
                f"The node config lacks '{key}': --node-config 'site=\"north\" data=\"/data/north.csv\"'."
            )
    name, data = str(node["site"]), Path(str(node["data"])).expanduser()
    folder = Path(str(node.get("state") or data.with_name(f"{data.stem}.state"))).expanduser()
    pinned = Path(str(node["schema"])).expanduser() if node.get("schema") else None
    share = frozenset(_words(node["share"])) if node.get("share") else None
    overrides: dict[str, Any] = {key.replace("-", "_"): node[key] for key in NODE_KEYS[6:] if key in node}
    if "constraints" in node:
        overrides["constraints"] = _words(node["constraints"])
    rows = partial(table_rows, name, data, pinned, cache=folder / "pictures")
    return Site(name, Store(folder), rows, share, overrides, factory)


def _simulated(node: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    pattern = Path(str(run.get("simulation-data", "")))
    files = sorted(pattern.parent.glob(pattern.name)) if pattern.name else []
    place = int(node["partition-id"])
    if place >= len(files):
        raise GlocalfairError(
            f"'simulation-data' is '{pattern}', which names {len(files)} files, but there are "
            f"{node.get('num-partitions', place + 1)} virtual nodes. Set num-supernodes to the number of files."
        )
    name = files[place].stem
    state = Path(str(run.get("run-dir", "runs/flower"))).absolute() / "sites" / name
    return {"site": name, "data": str(files[place]), "state": str(state)}


def _words(text: Any) -> list[str]:
    return [word for word in str(text).replace(",", " ").split() if word]


def _tell(text: str) -> None:
    logging.getLogger("flwr").info(text)
