"""The parsers of files from others, as functions of bytes: they return, or raise a GlocalfairError, and nothing else.

`tools/fuzz.py` hunts in them with a coverage-guided fuzzer; `test_fuzz.py` mutates good files at random.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from glocalfair.bundle import Bundle
from glocalfair.data.encoder import Encoder
from glocalfair.data.frame.schema import FrameSchema
from glocalfair.data.frame.sensitive import Sensitive
from glocalfair.engines.checks import foreign
from glocalfair.engines.state import SimulationState
from glocalfair.errors import GlocalfairError
from glocalfair.flower.schema import PublicSchema
from glocalfair.runs import RunDirectory, read_safetensors
from glocalfair.types import ServerState

FOLDER = tempfile.TemporaryDirectory()
SCHEMA = FrameSchema(
    "y", "no", "yes", (Sensitive("sex", ("F", "M")),), "site", ("age",), (("sex", ("F", "M")),), ("", "NA")
)
ROWS: dict[str, list[Any]] = {"age": [31, None, "x"], "sex": ["F", "M", "?"], "y": ["no", "yes", "yes"]}


@cache
def good_bundle() -> bytes:
    """Return the smallest useful bundle."""
    encoder = Encoder(("age",), (40.0,), (10.0,), (True,), (("sex", ("F", "M")),))
    tensors = {"layers.0.weight": np.ones((2, 4), np.float32), "layers.0.bias": np.zeros(2, np.float32)}
    tensors |= {"layers.1.weight": np.ones((1, 2), np.float32), "layers.1.bias": np.zeros(1, np.float32)}
    path = Path(FOLDER.name) / "good.glocalfair"
    Bundle(tensors, encoder, SCHEMA, {"name": "mlp", "hidden": [2]}, {"method": "fedavg", "seed": 0}).save(path)
    return path.read_bytes()


def state() -> SimulationState:
    """Return a state with everything in it that a state can have."""
    server = ServerState(np.ones(3, np.float32), {"clients": '["a"]', "lam": np.ones(1), "count": 2})
    kept = {"a": {"personal": np.ones(3, np.float32), "pressures": np.zeros((2, 2))}}
    return SimulationState(2, server, kept, np.ones(3), np.ones(3, np.float32), 0.5, 1)


@cache
def good_checkpoint() -> bytes:
    """Return the checkpoint of that state."""
    folder = Path(FOLDER.name) / "good"
    folder.mkdir(exist_ok=True)
    directory = RunDirectory(folder)
    directory.save_state(state())
    return directory.checkpoint.read_bytes()


@cache
def good_schema() -> bytes:
    """Return a published schema."""
    column = {"low": 0, "high": 100, "missing": True}
    return json.dumps({"glocalfair-schema": 1, **SCHEMA.to_dict(), "columns": {"age": column}}).encode()


def _file(content: bytes, good: bytes, name: str) -> Path:
    """Write a safetensors file: the bytes as they are, or (first byte even) as the JSON in a sound container."""
    path = Path(FOLDER.name) / name
    if content[:1] and content[0] % 2 == 0:
        path.write_bytes(good)
        tensors, _ = read_safetensors(path)
        content = save(tensors, {"glocalfair": content[1:].decode("utf-8", "replace")})
    else:
        content = content[1:]
    path.write_bytes(content)
    return path


def bundle(content: bytes) -> None:
    """Load a bundle, build its model and predict."""
    found = Bundle.load(_file(content, good_bundle(), "fuzz.glocalfair"))
    probability = found.predict(ROWS).probability
    assert probability.shape == (3,)


def checkpoint(content: bytes) -> None:
    """Load a checkpoint and compare it with a run."""
    folder = Path(FOLDER.name) / "run"
    folder.mkdir(exist_ok=True)
    path = _file(content, good_checkpoint(), "run/checkpoint.safetensors")
    found = RunDirectory(path.parent).load_state()
    if foreign(found, state(), 4) is None:
        RunDirectory(path.parent).save_state(found)


def schema(content: bytes) -> None:
    """Read a published schema, then a table by it."""
    import polars as pl

    path = Path(FOLDER.name) / "schema.json"
    path.write_bytes(content)
    PublicSchema.load(path).fit(pl.DataFrame(ROWS, strict=False))


TARGETS: dict[str, Callable[[bytes], None]] = {"bundle": bundle, "checkpoint": checkpoint, "schema": schema}


@cache
def seeds(name: str) -> list[bytes]:
    """Return good inputs of a target."""
    if name == "schema":
        return [good_schema()]
    good = {"bundle": good_bundle, "checkpoint": good_checkpoint}[name]()
    path = Path(FOLDER.name) / "seed"
    path.write_bytes(good)
    return [b"\x01" + good, b"\x00" + json.dumps(read_safetensors(path)[1]).encode()]


def outcome(name: str, content: bytes) -> str:
    """Try one input: "read" or "refused"; whatever else happens is a bug and goes through."""
    try:
        TARGETS[name](content)
    except GlocalfairError as error:
        assert "\n" not in str(error)
        return "refused"
    return "read"
