"""Adult's four groups as four sites' tables, the app that trains on them, and what a simulation makes of the same."""

from __future__ import annotations

import dataclasses
import re
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from click.testing import CliRunner

from glocalfair import models
from glocalfair.cli import main
from glocalfair.config import RunConfig
from glocalfair.engines.simulator import Simulator
from glocalfair.flower.deployment import Plan
from glocalfair.flower.schema import PublicSchema
from glocalfair.flower.settings import Terms
from glocalfair.flower.table import table_rows
from glocalfair.local.network import network
from glocalfair.types import Client, Federation, Floats

SITES = ["female-non-white", "female-white", "male-non-white", "male-white"]


def glocalfair(*words: str) -> str:
    done = CliRunner().invoke(main, list(words), standalone_mode=False)
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.output


def write_tables(folder: Path, every: int = 40) -> None:
    """Write one CSV file for each group, and all of them as one."""
    adult = resources.files("glocalfair") / "data" / "files" / "adult.parquet"
    people = pl.read_parquet(str(adult)).gather_every(every).drop("fnlwgt", "part")
    white = pl.when(pl.col("race") == "White").then(pl.lit("White")).otherwise(pl.lit("Non-White"))
    people = people.with_columns(race=white)
    (folder / "data").mkdir(parents=True)
    people.write_csv(folder / "everybody.csv")
    for (sex, race), rows in people.group_by("sex", "race"):
        rows.write_csv(folder / "data" / f"{sex}-{race}.csv".lower())


def write_app(folder: Path, name: str, method: str, flower: str = "", **train: Any) -> Path:
    """Make schema and app with our own commands, and set what a test needs."""
    schema = folder / "schema.json"
    if not schema.exists():
        table = str(folder / "everybody.csv")
        glocalfair("flower", "schema", table, "--label", "income", "--sensitive", "sex", "race", "-o", str(schema))
    app = folder / name
    pattern = str(folder / "data" / "*.csv")
    glocalfair(
        "flower", "init", str(app), "--schema", str(schema), "--method", method, "--data", pattern, "--sites", *SITES
    )
    file = app / name / "federation.toml"
    text = file.read_text()
    for key, value in train.items():
        text, changed = re.subn(rf"^{key} = \S+", f"{key} = {value}", text, flags=re.M)
        assert changed == 1, key
    file.write_text(f"{text}\n{flower}")
    return app


def pooled(folder: Path, terms: Terms) -> Federation:
    """Put the sites' rows together, each with the split that the site made."""
    parts = [table_rows(name, folder / "data" / f"{name}.csv", None, terms).federation for name in SITES]
    starts = np.cumsum([0, *(len(part.y) for part in parts)])
    clients = tuple(
        Client(c.name, c.train + at, c.validation + at, c.test + at)
        for part, at in zip(parts, starts, strict=False)
        for c in part.clients
    )
    x, y, groups = (np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "y", "groups"))
    return Federation("pooled", x, y, groups, parts[0].attributes, clients, np.empty(0, dtype=np.int64))


def simulated(folder: Path, app: Path) -> Floats:
    """Return the final weights of the embedded engine on the same rows, one client after the other."""
    plan = Plan.load(app / app.name / "federation.toml")
    encoder = PublicSchema.load(folder / "schema.json").encoder()
    terms = dataclasses.replace(plan.terms("run"), encoder=encoder.to_dict())
    config = plan.config
    federation = pooled(folder, terms)
    module = models.build(config.model.name, federation.x.shape[1], config.run.seed, config.model.hidden)
    run = RunConfig(seed=config.run.seed, dtype=config.run.dtype, cohort=1)
    sim = Simulator(federation, network(module), terms.made_method(), config.train, run, config.server)
    state = sim.start(sim.network.layout.flatten(module).numpy())
    while not sim.finished(state):
        state, _ = sim.step(state)
    return sim.final_weights(state)


def weights_of(bundle: Path) -> Floats:
    """Return the weights in a bundle as one vector."""
    from glocalfair.bundle import Bundle
    from glocalfair.layout import Layout

    found = Bundle.load(bundle)
    names = Layout.of(found.module()).names
    return np.concatenate([found.tensors[name].reshape(-1) for name in names])
