"""``glocalfair flower init``: a small, complete Flower app for one's own data and model."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from glocalfair.config import dump
from glocalfair.errors import GlocalfairError
from glocalfair.flower.deployment import Plan
from glocalfair.flower.schema import PublicSchema
from glocalfair.registry import method as make_method

SERVER = '''"""The coordinator: reads federation.toml beside this file."""

from pathlib import Path

from glocalfair.flower import server_app
{model}
app = server_app(Path(__file__).with_name("federation.toml"){factory})
'''
CLIENT = '''"""A site: its data, its folder and its rules come from the --node-config of its SuperNode."""

from glocalfair.flower import client_app
{model}
app = client_app({factory})
'''
MODEL = '''"""Your own model: one logit for each row. Coordinator and sites build it with this function."""

from torch import nn


def make(inputs: int) -> nn.Module:
    return nn.Sequential({layers})
'''
LAYERS = "nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, 1)"
CONVOLUTIONS = "nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 1)"
FEDERATION = """# What the coordinator decides. Sites see all of it except [flower] and [server].

[method]
name = "{method}"  # see: glocalfair list methods

[model]
{model}

[train]
rounds = {rounds}
participation = 1.0  # share of the sites that train in a round
epochs = 2
lr = 0.05
batch_size = 64

[run]
seed = 0

[flower]
schema = "schema.json"
{sites}
quorum = 0.5  # share of a round's updates that must arrive
enrol_timeout = 300.0  # seconds
round_timeout = 3600.0
standardise = "schema"  # or "totals": each site then sends three totals for each numeric column, once
"""


def write_app(
    folder: Path,
    schema: Path,
    method: str,
    data: Path | None = None,
    sites: tuple[str, ...] = (),
    rounds: int = 30,
    own: bool = False,
) -> str:
    """Write the app and return the name of its package.

    Parameters
    ----------
    folder
        Where; it must not exist or be empty.
    schema
        The published schema.
    method
        A registered method.
    data
        Files for a simulation, as a pattern such as ``data/*.csv``; None for a deployment only.
    sites
        Names of the sites; empty for whoever connects.
    rounds
        Number of rounds.
    own
        Whether the user brings a model of their own.
    """
    if folder.exists() and any(folder.iterdir()):
        raise GlocalfairError(f"'{folder}' is not empty. Choose another folder.")
    pictures = PublicSchema.load(schema).pictures is not None
    make_method(method, {})
    name = re.sub(r"\W+", "_", folder.resolve().name).strip("_").lower() or "app"
    name = name if name.isidentifier() else f"app_{name}"
    package = folder / name
    package.mkdir(parents=True)
    imported = f"\nfrom {name}.model import make\n" if own else ""
    known = 'name = "mobilenet_v2"\nnorm = "group"' if pictures else 'name = "mlp"\nhidden = [32, 16]'
    model = f'name = "{name}.model:make"' if own else known
    who = dump({"sites": list(sites)}).strip() if sites else "min_sites = 2"
    files = {
        package / "__init__.py": "",
        package / "server_app.py": SERVER.format(model=imported, factory=", make" if own else ""),
        package / "client_app.py": CLIENT.format(model=imported, factory="make" if own else ""),
        package / "federation.toml": FEDERATION.format(method=method, model=model, rounds=rounds, sites=who),
        folder / "pyproject.toml": _project(folder, name, data),
    }
    if own:
        files[package / "model.py"] = MODEL.format(layers=CONVOLUTIONS if pictures else LAYERS)
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    shutil.copyfile(schema, package / "schema.json")
    if not own:
        Plan.load(package / "federation.toml")
    return name


def _project(folder: Path, name: str, data: Path | None) -> str:
    config = {"run-dir": str((folder / "run").absolute())}
    if data is not None:
        config["simulation-data"] = str(data.absolute())
    return "# A Flower app. Start it with: flwr run .\n" + dump(
        {
            "build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"},
            "project": {
                "name": name.replace("_", "-"),
                "version": "1.0.0",
                "description": "Fair federated learning across organisations",
                "license": "Apache-2.0",
                "dependencies": ["glocalfair[flower]"],
            },
            "tool": {
                "hatch": {"build": {"targets": {"wheel": {"packages": ["."]}}}},
                "flwr": {
                    "app": {
                        "publisher": "local",
                        "components": {"serverapp": f"{name}.server_app:app", "clientapp": f"{name}.client_app:app"},
                        "config": config,
                    }
                },
            },
        }
    )
