"""``glocalfair list`` shows all that is registered."""

from __future__ import annotations

import json

import pytest

from glocalfair.cli.listing import LISTS
from glocalfair.config import experiments
from glocalfair.data import PARTITIONS, datasets
from glocalfair.metrics import METRICS
from glocalfair.models import MODELS
from glocalfair.registry import methods

from .invoke import glocalfair

REGISTERED = {
    "methods": methods(),
    "data": datasets(),
    "models": MODELS,
    "metrics": METRICS,
    "partitions": PARTITIONS,
    "experiments": experiments(),
}


@pytest.mark.parametrize("what", LISTS)
def test_table_names_everything(what: str) -> None:
    done = glocalfair("list", what, width=80)
    assert done.exit_code == 0
    words = {line.split()[0] for line in done.stdout.splitlines() if line and not line.startswith(" ")}
    assert set(REGISTERED[what]) <= words
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("what", LISTS)
def test_json_describes_everything(what: str) -> None:
    rows = json.loads(glocalfair("list", what, "--json").stdout)
    assert set(REGISTERED[what]) <= {row["name"] for row in rows}
    assert all(row["description"] for row in rows)


def test_methods_say_what_they_disclose() -> None:
    rows = {row["name"]: row for row in json.loads(glocalfair("list", "methods", "--json").stdout)}
    assert rows["fedavg"]["attributes"] == "none"
    assert [told["what"] for told in rows["fedavg"]["discloses"]] == ["weights", "examples"]
    assert {row["attributes"] for row in rows.values()} <= {"none", "single", "joint"}
