"""Sites with folders of pictures: schema, check, app and a whole run in memory, equal to the simulator."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytest.importorskip("flwr", reason="needs the flower extra")
pytest.importorskip("PIL", reason="needs the images extra")

from click.testing import CliRunner

from glocalfair.cli import main
from glocalfair.config import RunConfig
from glocalfair.data.images.faces import ATTRIBUTES, FacesOptions, load
from glocalfair.data.split import SplitSpec
from glocalfair.engines.simulator import Simulator
from glocalfair.errors import GlocalfairError
from glocalfair.flower.apps import site_of
from glocalfair.flower.deployment import Plan, coordinate
from glocalfair.flower.sample import write_faces
from glocalfair.flower.site import Site
from glocalfair.flower.table import fit, split, table_rows
from glocalfair.flower.transport import MemoryTransport
from glocalfair.local.network import network
from glocalfair.runs import read_safetensors
from glocalfair.types import Client, Federation, Floats
from tests.flower.groups import glocalfair

SITES = ("east", "north", "south")
ROWS = 24
MODEL = 'name = "mobilenet_v2"\nnorm = "group"\nwidth = 0.1'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLOCALFAIR_CACHE", str(tmp_path / "cache"))
    write_faces(tmp_path / "data", SITES, ROWS * len(SITES))
    said = glocalfair(
        *("flower", "schema", str(tmp_path / "data" / "north"), "--label", "smiling", "--positive", "yes"),
        *("--sensitive", "gender", "age", "--side", "32", "--unit", "person", "-o", str(tmp_path / "schema.json")),
    )
    assert "Pictures of 32 × 32 pixels" in said
    return tmp_path


def app(folder: Path, *more: str, model: str = MODEL) -> Path:
    """Make an app with our own command, with a small model."""
    made = folder / "app"
    schema = str(folder / "schema.json")
    glocalfair("flower", "init", str(made), "--schema", schema, "--sites", *SITES, "--rounds", "2", *more)
    file = made / "app" / "federation.toml"
    text = file.read_text()
    file.write_text(text.replace('name = "mobilenet_v2"\nnorm = "group"', model).replace("epochs = 2", "epochs = 1"))
    return file


def sites(folder: Path) -> list[Site]:
    share = "weights examples totals test_counts"
    nodes = [{"site": s, "data": str(folder / "data" / s), "state": str(folder / s), "share": share} for s in SITES]
    return [site_of(node, {}) for node in nodes]


def transport(folder: Path) -> MemoryTransport:
    return MemoryTransport({place: site.answer for place, site in enumerate(sites(folder), start=5)})


def simulated(folder: Path, file: Path) -> tuple[Floats, Simulator]:
    """Train the embedded engine on the generator's own arrays, not on what was read from the files."""
    plan = Plan.load(file)
    config, shares = plan.config, SplitSpec(0.0, plan.config.split.validation, plan.config.split.local_test)
    parts = [load(FacesOptions(rows=ROWS, seed=seed)) for seed in range(len(SITES))]
    clients = []
    for place, (name, part) in enumerate(zip(SITES, parts, strict=True)):
        c = split(name, part, shares, config.run.seed)
        assert part.unit is not None and not set(part.unit[c.train]) & set(part.unit[c.test])
        clients.append(Client(name, *(rows + ROWS * place for rows in (c.train, c.validation, c.test))))
    images, y, groups = (np.concatenate([getattr(p, key) for p in parts]) for key in ("images", "label", "groups"))
    federation = Federation("faces", images, y, groups, ATTRIBUTES, tuple(clients), np.empty(0, dtype=np.int64))
    run = RunConfig(seed=config.run.seed, dtype=config.run.dtype, cohort=1)
    sim = Simulator(federation, network(plan.module), plan.terms("run").made_method(), config.train, run, config.server)
    state = sim.start(plan.layout.flatten(plan.module).numpy())
    while not sim.finished(state):
        state, _ = sim.step(state)
    return sim.final_weights(state), sim


def test_a_whole_run_equals_the_simulation(folder: Path) -> None:
    file, lines = app(folder, "--method", "glocalfair"), []
    result = coordinate(transport(folder), file, folder / "run", tell=lines.append)
    assert any("Round 2/2: 3 of 3 sites" in line for line in lines), lines
    expected, sim = simulated(folder, file)
    tensors, about = read_safetensors(folder / "run" / "model.safetensors")
    found = Plan.load(file).layout.join(tensors)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert about["model"]["name"] == "mobilenet_v2" and about["schema"]["pictures"]["side"] == 32
    assert result["global"]["examples"] == sum(len(client.test) for client in sim.clients.values())
    # A newcomer measures the model before it joins; here on a site that has taken part.
    south = np.arange(2 * ROWS, 3 * ROWS)
    right = (sim.trainer.logits(found, south) > 0) == sim.federation.y[south]
    for model in (folder / "run", folder / "north" / "model.safetensors"):
        told = json.loads(glocalfair("flower", "evaluate", str(model), str(folder / "data" / "south"), "--json"))
        assert told["examples"] == ROWS and told["accuracy"] == pytest.approx(right.mean())
    for name in SITES:
        kept, _ = read_safetensors(folder / name / "model.safetensors")
        assert all((kept[key] == tensors[key]).all() for key in tensors)
        # Decoded once, for all messages.
        assert len(list((folder / name / "pictures").iterdir())) == 1


def test_what_does_not_fit_is_said_and_no_file_is_named_to_others(folder: Path) -> None:
    north = folder / "data" / "north"
    (north / "00004.png").unlink()
    (north / "00005.png").write_bytes(b"no picture")
    (north / "00007.png").write_bytes((north / "00006.png").read_bytes())
    table = pl.read_csv(north / "labels.csv")
    strange = pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("unheard-of")).otherwise("gender")
    table.with_columns(gender=strange).write_csv(north / "labels.csv")
    said = glocalfair("flower", "check", str(north), "--schema", str(folder / "schema.json"))
    assert "Column 'gender': 1 value not in the schema." in said
    assert "1 picture left out: no such file (00004.png)" in said
    assert "1 picture left out: unreadable (00005.png" in said
    assert "1 picture left out: byte copies of others" in said
    assert f"{ROWS - 4} rows can be used" in said
    for file in north.glob("*.png"):
        file.unlink()
    terms = Plan.load(app(folder)).terms("run")
    with pytest.raises(GlocalfairError, match=f"None of {ROWS} pictures fits the schema") as told:
        table_rows("north", north, None, terms, folder / "cache")
    assert ".png" not in str(told.value)
    table.drop("age").write_csv(north / "labels.csv")
    with pytest.raises(GlocalfairError, match="'age'"):
        table_rows("north", north, None, terms, folder / "cache")


def test_a_table_may_have_another_name_and_a_folder_is_no_table(folder: Path) -> None:
    plan = Plan.load(app(folder))
    south = folder / "data" / "south"
    (south / "labels.csv").rename(south / "faces.csv")
    assert len(fit(plan.schema, south / "faces.csv", cache=folder / "cache").dataset) == ROWS
    with pytest.raises(GlocalfairError, match="is a folder"):
        fit(replace(plan.schema, pictures=None), south)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"side": 8}, "'pictures.side' must be"),
        ({"channels": 1}, "'pictures.channels' must be"),
        ({"sides": 32}, "Did you mean 'side'"),
    ],
)
def test_mistakes_in_the_schema(folder: Path, change: dict[str, int], message: str) -> None:
    path = folder / "schema.json"
    values = json.loads(path.read_text())
    values["pictures"] |= change
    path.write_text(json.dumps(values))
    done = CliRunner().invoke(main, ["flower", "check", str(folder / "data" / "south"), "--schema", str(path)])
    assert done.exit_code == 2 and message in done.output, done.output


def test_models_that_do_not_fit_or_are_code(folder: Path) -> None:
    file = app(folder, model='name = "mlp"')
    with pytest.raises(GlocalfairError, match=r"which are pictures\. Use resnet34 or mobilenet_v2"):
        Plan.load(file)
    file.write_text(file.read_text().replace('"mlp"', '"os:getcwd"'))
    with pytest.raises(GlocalfairError, match="'os:getcwd' is code"):
        Plan.load(file)
    file.write_text(file.read_text().replace('name = "os:getcwd"', MODEL).replace('"schema"', '"totals"'))
    with pytest.raises(GlocalfairError, match="are for tables"):
        Plan.load(file)


def test_a_model_of_ones_own(folder: Path) -> None:
    """The model.py that ``init --own-model`` writes; the coordinator's name of it is not imported anywhere."""
    file = app(folder, "--own-model", "--method", "fedavg")
    made: dict[str, object] = {}
    exec((file.parent / "model.py").read_text(), made)
    factory = made["make"]
    own = [replace(site, factory=factory) for site in sites(folder)]
    lines: list[str] = []
    result = coordinate(
        MemoryTransport({place: site.answer for place, site in enumerate(own)}),
        *(file, folder / "run", factory, lines.append),  # type: ignore[arg-type]
    )
    assert sorted(result["sites"]) == sorted(SITES)
    with pytest.raises(GlocalfairError, match=r"'app\.model:make' is code"):
        coordinate(transport(folder), file, folder / "other", factory, lines.append)  # type: ignore[arg-type]
