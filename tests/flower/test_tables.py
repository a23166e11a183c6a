"""Sites with tables of their own: the published schema, the split, the final model, and what is measured where."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

pytest.importorskip("flwr", reason="needs the flower extra")

from glocalfair.data.encoder import Encoder
from glocalfair.errors import GlocalfairError
from glocalfair.flower.deployment import Plan, coordinate
from glocalfair.flower.schema import PublicSchema
from glocalfair.flower.site import Site
from glocalfair.flower.store import Store
from glocalfair.flower.table import table_rows
from glocalfair.flower.transport import MemoryTransport
from tests.flower.groups import SITES, glocalfair, pooled, simulated, weights_of, write_app, write_tables


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tables(tmp_path)
    return tmp_path


def transport(folder: Path, share: frozenset[str] | None = None) -> MemoryTransport:
    sites = [
        Site(
            name,
            Store(folder / "state" / name),
            partial(table_rows, name, folder / "data" / f"{name}.csv", None),
            share,
        )
        for name in SITES
    ]
    return MemoryTransport({number: site.answer for number, site in enumerate(sites)})


def run(folder: Path, app: Path, share: frozenset[str] | None = None) -> tuple[dict[str, Any], list[str]]:
    lines: list[str] = []
    file = app / app.name / "federation.toml"
    return coordinate(transport(folder, share), file, app / "run", tell=lines.append), lines


@pytest.mark.parametrize("method", ["glocalfair", "fedfb"])
def test_a_whole_run_equals_the_simulation_bit_for_bit(method: str, folder: Path) -> None:
    app = write_app(folder, "app", method, rounds=3, participation=0.75)
    _, lines = run(folder, app)
    found = weights_of(app / "run" / "model.glocalfair")
    np.testing.assert_array_equal(found, simulated(folder, app))
    for site in SITES:
        np.testing.assert_array_equal(weights_of(folder / "state" / site / "model.glocalfair"), found)
    assert any("Round 3/3: 3 of 3 sites" in line for line in lines)
    assert any("No fairness figures" in line for line in lines)
    _, again = run(folder, app)
    assert "is complete" in again[0]


class Stop(Exception):  # noqa: N818
    pass


def test_a_run_goes_on_where_it_was_and_with_nothing_else(folder: Path) -> None:
    app = write_app(folder, "app", "glocalfair", rounds=3)
    file, lines = app / "app" / "federation.toml", []
    dying = transport(folder)
    ask = dying.ask

    def dies(kind: Any, requests: Any, timeout: float) -> Any:
        replies = ask(kind, requests, timeout)
        if kind == "train" and next(iter(requests.values())).values["round"] == 2:
            raise Stop
        return replies

    dying.ask = dies  # type: ignore[method-assign]
    with pytest.raises(Stop):
        coordinate(dying, file, app / "run", tell=lines.append)
    _, lines = run(folder, app)
    assert "Going on after round 1 of 3." in lines
    np.testing.assert_array_equal(weights_of(app / "run" / "model.glocalfair"), simulated(folder, app))

    # A checkpoint of another run is refused.
    other = write_app(folder, "other", "fedavg", rounds=1)
    run(folder, other)
    (other / "run" / "result.json").unlink()
    (other / "run" / "checkpoint.safetensors").write_bytes((app / "run" / "checkpoint.safetensors").read_bytes())
    (other / "run" / "rounds.jsonl").write_bytes((app / "run" / "rounds.jsonl").read_bytes())
    (other / "run" / "timing.jsonl").write_bytes((app / "run" / "timing.jsonl").read_bytes())
    with pytest.raises(GlocalfairError, match="does not belong to this run: it is of round 3 of 1"):
        run(folder, other)


def test_the_final_model_reaches_a_site_under_another_node(folder: Path) -> None:
    app, lines = write_app(folder, "app", "fedavg", rounds=1), []
    moving = transport(folder)
    ask = moving.ask

    def moves(kind: Any, requests: Any, timeout: float) -> Any:
        replies = ask(kind, requests, timeout)
        if kind == "train":
            moving._sites[99] = moving._sites.pop(0)
            del moving._sites[1]
        return replies

    moving.ask = moves  # type: ignore[method-assign]
    coordinate(moving, app / "app" / "federation.toml", app / "run", tell=lines.append)
    assert (folder / "state" / SITES[0] / "model.glocalfair").exists()
    silent = [line for line in lines if "has not confirmed" in line]
    assert silent == [f"Site '{SITES[1]}' has not confirmed the final model: it is not connected"]


def test_counts_leave_a_site_only_if_it_says_so(folder: Path) -> None:
    app = write_app(folder, "app", "glocalfair", rounds=1)
    allowed = frozenset({"weights", "examples", "totals", "test_counts"})
    result, _ = run(folder, app, allowed)
    assert result["local"]["accuracy"]["clients"] == 4
    silent = write_app(folder, "silent", "glocalfair", rounds=1)
    result, _ = run(folder, silent, allowed - {"test_counts"})
    assert "global" not in result
    logs = [json.loads(line) for line in (folder / "state" / SITES[0] / "log.jsonl").read_text().splitlines()]
    assert sum(np.sum(line["test"]["counts"]) for line in logs if line["event"] == "finished") > 0


def test_a_table_of_the_coordinators_own(folder: Path) -> None:
    app = write_app(folder, "app", "fedavg", f'test = "{folder / "everybody.csv"}"', rounds=1)
    result, _ = run(folder, app)
    assert result["global"]["examples"] == pl.read_csv(folder / "everybody.csv").height
    assert glocalfair("flower", "evaluate", str(app / "run"), str(folder / "everybody.csv"), "--json")
    told = json.loads(glocalfair("flower", "evaluate", str(app / "run"), str(folder / "everybody.csv"), "--json"))
    assert told["accuracy"] == result["global"]["accuracy"]
    assert "EOD sex" in glocalfair("flower", "evaluate", str(app / "run"), str(folder / "data" / f"{SITES[0]}.csv"))


def test_totals_give_the_federations_own_mean_and_deviation(folder: Path) -> None:
    app = write_app(folder, "app", "fedavg", rounds=1, standardise='"totals"')
    run(folder, app)
    terms = Plan.load(app / "app" / "federation.toml").terms("run")
    federation = pooled(folder, terms)
    schema = PublicSchema.load(folder / "schema.json")
    rows = np.concatenate([client.train for client in federation.clients])
    datasets = [schema.fit(pl.read_csv(folder / "data" / f"{name}.csv")).dataset for name in SITES]
    numeric = np.concatenate([each.numeric for each in datasets])
    together = Encoder.fit(replace(datasets[0], numeric=numeric), rows)
    from glocalfair.bundle import Bundle

    found = Bundle.load(app / "run").encoder
    np.testing.assert_allclose(found.mean, together.mean, rtol=1e-6)
    np.testing.assert_allclose(found.std, together.std, rtol=1e-5)


def test_totals_are_refused_by_a_site_that_does_not_share_them(folder: Path) -> None:
    app = write_app(folder, "app", "fedavg", rounds=1, standardise='"totals"')
    with pytest.raises(GlocalfairError, match="does not send 'column_totals'"):
        run(folder, app, frozenset({"weights", "examples"}))


def test_what_does_not_fit_is_said(folder: Path) -> None:
    write_app(folder, "app", "fedavg")
    table, schema = folder / "data" / f"{SITES[0]}.csv", str(folder / "schema.json")
    people = pl.read_csv(table)
    strange = people.with_columns(
        age=pl.when(pl.int_range(pl.len()) < 3).then(200).otherwise("age"),
        workclass=pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("Astronaut")).otherwise("workclass"),
    )
    strange.write_csv(folder / "strange.csv")
    said = glocalfair("flower", "check", str(folder / "strange.csv"), "--schema", schema)
    assert "Column 'age': 3 values outside 17 to 90." in said
    assert "Column 'workclass': 1 value not in the schema." in said
    people.drop("age").write_csv(folder / "short.csv")
    with pytest.raises(GlocalfairError, match=r"lacks 1 of the 13 columns.*'age'"):
        PublicSchema.load(Path(schema)).fit(pl.read_csv(folder / "short.csv"))


def test_a_site_keeps_to_the_schema_that_it_has_agreed_to(folder: Path) -> None:
    app = write_app(folder, "app", "fedavg")
    terms = Plan.load(app / "app" / "federation.toml").terms("run")
    mine = folder / "mine.json"
    mine.write_bytes((folder / "schema.json").read_bytes())
    data = folder / "data" / f"{SITES[0]}.csv"
    assert len(table_rows(SITES[0], data, mine, terms).federation.y)
    mine.write_text(mine.read_text().replace('"high": 90.0', '"high": 99.0'))
    with pytest.raises(GlocalfairError, match="not the one that site"):
        table_rows(SITES[0], data, mine, terms)


def test_other_settings_for_a_run_that_has_begun_are_refused(folder: Path) -> None:
    app = write_app(folder, "app", "fedavg", rounds=1)
    run(folder, app)
    file = app / "app" / "federation.toml"
    file.write_text(file.read_text().replace("lr = 0.05", "lr = 0.5"))
    with pytest.raises(GlocalfairError, match="begun with other settings"):
        run(folder, app)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("quorum = 0.5", "quorum = 0", "'flower.quorum' must be"),
        ("round_timeout", "round_timeot", "Did you mean 'round_timeout'"),
        ("[run]", "[data]\nname = 'adult'\n[run]", r"must not have \[data\]"),
        ("[run]", "[run]\ndtype = 'float16'", "'dtype' must be"),
        ("rounds = 30", "rounds = 30\nearly_stopping = 3", "needs validation rows"),
        ('schema = "schema.json"', 'schema = "none.json"', "Cannot read the schema"),
    ],
)
def test_mistakes_in_the_coordinators_file(folder: Path, old: str, new: str, message: str) -> None:
    file = write_app(folder, "app", "fedavg") / "app" / "federation.toml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(GlocalfairError, match=message):
        Plan.load(file)
