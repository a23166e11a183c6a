"""Tables of the last round: what the clients' constraints achieved and how the server weighed the clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group

from glocalfair.report.tables import plain_table, titled
from glocalfair.report.text import DASH, constraints, figure, is_defined

ROWS = 20
_SERVER = {"gini": "Gini", "cluster": "cluster", "coefficients": "weight"}


def round_tables(record: Mapping[str, Any]) -> Iterator[Group]:
    """Give the tables that a record has something for; none for methods that log nothing."""
    constraints = constraint_table(record)
    server = server_table(record)
    yield from (table for table in (constraints, server) if table is not None)


def constraint_table(record: Mapping[str, Any]) -> Group | None:
    """Lay out the achieved violation beside the requested bound, worst first."""
    found = [
        (client, constraint) for client, told in record.get("clients", {}).items() for constraint in constraints(told)
    ]
    if not found:
        return None
    # An undefined violation sorts last, whatever its name.
    found.sort(key=lambda item: -_number(item[1].get("violation")))
    table = plain_table("client", "constraint", "τ", "violation", "λ")
    for client, constraint in found[:ROWS]:
        values = (figure(constraint.get(key)) for key in ("tau", "violation", "multiplier"))
        table.add_row(client, str(constraint["name"]), *values)
    title = f"Constraints of the clients in round {record['round']}, largest violation first"
    return titled(title, table, len(found) - ROWS, "constraint")


def server_table(record: Mapping[str, Any]) -> Group | None:
    """Lay out Gini coefficient, cluster and weight of each client; only for methods that look at Gini."""
    log = record.get("server", {})
    if "gini" not in log:
        return None
    columns = [key for key in _SERVER if isinstance(log.get(key), Mapping)]
    table = plain_table("client", *(_SERVER[key] for key in columns))
    clients = list(log["gini"])
    for client in clients[:ROWS]:
        table.add_row(client, *(_cell(key, log[key].get(client)) for key in columns))
    title = f"How the server weighed the clients in round {record['round']}"
    return titled(title, table, len(clients) - ROWS, "client")


def _cell(key: str, value: Any) -> str:
    if key == "cluster":
        return DASH if value is None else str(value)
    return figure(value)


def _number(value: Any) -> float:
    return float(value) if is_defined(value) else float("-inf")
