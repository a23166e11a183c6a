"""``glocalfair list``: what there is to choose from."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from glocalfair.errors import unknown

Rows = list[dict[str, Any]]


def _methods() -> Rows:
    from glocalfair.registry import method, methods

    rows = []
    for name, kind in methods().items():
        told = method(name).discloses()
        rows.append(
            {
                "name": name,
                "description": kind.summary,
                "attributes": kind.attributes,
                "discloses": [{"what": d.kind, "text": d.text, "once": d.once} for d in told],
                "reference": kind.citation,
            }
        )
    return rows


def _data() -> Rows:
    from glocalfair.data.registry import datasets

    return [{"name": e.name, "description": e.description, "licence": e.licence} for e in datasets().values()]


def _models() -> Rows:
    from glocalfair.models import MODELS

    rows = [{"name": name, "description": text} for name, (_, text) in MODELS.items()]
    return [*rows, {"name": "package.module:factory", "description": "your own: called with the number of inputs"}]


def _metrics() -> Rows:
    from glocalfair.metrics import METRICS

    return [{"name": name, "description": m.description, "reported": m.kind} for name, m in METRICS.items()]


def _partitions() -> Rows:
    from glocalfair.data.partition import PARTITIONS

    return [{"name": name, "description": p.description, "settings": list(p.options)} for name, p in PARTITIONS.items()]


def _experiments() -> Rows:
    from glocalfair.config import experiments

    return [{"name": name, "description": text} for name, text in experiments().items()]


LISTS: dict[str, Callable[[], Rows]] = {
    "methods": _methods,
    "data": _data,
    "models": _models,
    "metrics": _metrics,
    "partitions": _partitions,
    "experiments": _experiments,
}


@click.command("list", short_help="Show the methods, data, models, metrics, partitions or experiments.")
@click.argument("what", metavar=f"[{'|'.join(LISTS)}]")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list instead of a table.")
def list_command(what: str, as_json: bool) -> None:
    """Show what there is to choose from.

    \b
    Examples:
      glocalfair list methods            each method: its attributes, what it discloses, where it is from
      glocalfair list partitions         ways to deal rows out to organisations
      glocalfair list metrics --json     the same as JSON, for scripts
    """
    if what not in LISTS:
        raise unknown("list", what, LISTS)
    rows = LISTS[what]()
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    from glocalfair.report.console import console
    from glocalfair.report.lists import list_table

    console().print(list_table(rows))
