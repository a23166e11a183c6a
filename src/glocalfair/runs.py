"""The run directory: everything a run leaves behind, written so that nothing is lost or half there.

=====================  ==========================================================================================
``config.toml``        the resolved configuration
``federation.json``    who holds what: rows of each client by group, label and part
``enrolment.safetensors``  the sites that enrolled and their terms, if the rounds go over Flower
``rounds.jsonl``       one line for each round; equal runs give equal files
``timing.jsonl``       seconds for each round (apart, because no two runs take the same time)
``checkpoint.safetensors``  the state after the last saved round
``model.safetensors``  the final model, named tensors
``model.glocalfair``   the final model with its preprocessing, if it reads a table: for ``glocalfair predict``
``result.json``        the final metrics, and the counts they come from
=====================  ==========================================================================================
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from glocalfair import config as configuration
from glocalfair.engines.state import SimulationState
from glocalfair.errors import GlocalfairError
from glocalfair.types import Floats, ServerState, Value


def jsonable(value: Any) -> Any:
    """Turn arrays, tuples and mappings into plain JSON values; NaN and infinity become null."""
    # Most are of these kinds, and to ask whether something is a mapping takes long.
    if type(value) in (str, int, bool, type(None)):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(v) for v in value]
    if isinstance(value, np.ndarray):
        return jsonable(value.tolist())
    if isinstance(value, np.generic):
        return jsonable(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


_PLAIN = orjson.OPT_APPEND_NEWLINE | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def _line(value: Mapping[str, Any]) -> bytes:
    """Write a value as one line of JSON."""
    try:
        # A round of a hundred clients is 88 kB: the standard library takes 2 ms for them, of a round of twenty.
        return orjson.dumps(value, default=jsonable, option=_PLAIN)
    except TypeError:
        # Keys that are no text, whole numbers beyond 64 bits; an error again for what JSON has no form for.
        return (json.dumps(jsonable(value), ensure_ascii=False) + "\n").encode()


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file in one step: readers see the old content or the new, never a part."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        # A full disk needs the room.
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


FORMAT = 2
"""Of checkpoints: changes when the order of weights does."""
_SMALL = 1024
"""Arrays of up to so many numbers are put side by side in a checkpoint."""


class RunDirectory:
    """One run on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rounds = path / "rounds.jsonl"
        self.timing = path / "timing.jsonl"
        self.checkpoint = path / "checkpoint.safetensors"
        self.model = path / "model.safetensors"
        self.result = path / "result.json"
        self.config = path / "config.toml"
        self.federation = path / "federation.json"
        self.enrolment = path / "enrolment.safetensors"

    @classmethod
    def create(cls, path: Path, config: configuration.Config) -> RunDirectory:
        """Make a new run directory; one that holds a run already is refused."""
        run = cls(path)
        if run.config.exists():
            raise GlocalfairError(
                f"'{path}' already holds a run. Choose another --output, or continue it with --resume {path}."
            )
        try:
            path.mkdir(parents=True, exist_ok=True)
            write_atomically(run.config, configuration.dump(configuration.to_mapping(config)).encode())
        except OSError as error:
            raise GlocalfairError(f"Cannot write to the output directory '{path}': {error.strerror}.") from error
        run.rounds.touch()
        return run

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Open an existing run directory, to read it."""
        run = cls(path)
        if not run.config.exists():
            raise GlocalfairError(f"'{path}' is not a run directory: it has no config.toml.")
        return run

    def load_config(self) -> configuration.Config:
        """Return the configuration that the run was made with."""
        return configuration.load(str(self.config))

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Say what a disk that refuses to be written to leaves behind, and how to go on."""
        try:
            yield
        except OSError as error:
            raise GlocalfairError(
                f"Cannot write to '{self.path}': {error.strerror or error}. What was saved before is intact: "
                f"put that right and continue with: glocalfair run --resume {self.path}"
            ) from error

    def _write(self, path: Path, content: bytes) -> None:
        with self.writing():
            write_atomically(path, content)

    def save_federation(self, holdings: Mapping[str, Any]) -> None:
        """Write who holds what, for those who read the run without its data."""
        self._write(self.federation, json.dumps(jsonable(holdings), ensure_ascii=False).encode())

    def append(self, record: Mapping[str, Any], seconds: float) -> None:
        """Add a round to the log."""
        for path, line in (
            (self.rounds, record),
            (self.timing, {"round": record["round"], "seconds": seconds}),
        ):
            with self.writing(), path.open("ab") as file:
                file.write(_line(line))

    def load_rounds(self) -> list[dict[str, Any]]:
        """Return all complete records of the log."""
        return _records(self.rounds)

    def seconds(self) -> float:
        """Return how long the rounds of the log took."""
        return sum(float(line["seconds"]) for line in _records(self.timing))

    def resume(self) -> SimulationState | None:
        """Return the state to go on from, None for the beginning; cut the logs back to it.

        Lines of rounds after the checkpoint, a half-written line and half-written files go: those rounds come again.
        """
        state = self.load_state() if self.checkpoint.exists() else None
        with self.writing():
            done = state.round if state else 0
            if _cut(self.rounds, done) < done:
                raise GlocalfairError(
                    f"'{self.rounds}' lacks rounds that the checkpoint has behind it: it was changed. "
                    f"Remove '{self.checkpoint.name}' to begin again with --resume."
                )
            _cut(self.timing, done)
            for leftover in self.path.glob(".*.tmp"):
                leftover.unlink()
        return state

    def save_state(self, state: SimulationState) -> None:
        """Write the checkpoint in one file, in one step, after the log of the rounds that it has behind it."""
        from safetensors.numpy import save

        with self.writing():
            _to_disk(self.rounds)

        arrays: dict[str, np.ndarray[Any, Any]] = {"server": state.server.weights}
        scalars: dict[str, Any] = {"format": FORMAT, "round": state.round, "patience": state.patience}
        if math.isfinite(state.best_loss):
            scalars["best_loss"] = state.best_loss
        if state.diverged:
            scalars["diverged"] = state.diverged
        for name, value in (("tail", state.tail), ("best", state.best)):
            if value is not None:
                arrays[name] = value
        _pack("server/", state.server.values, arrays, scalars)
        _pack_clients(state.clients, arrays, scalars)
        contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        self._write(self.checkpoint, save(contiguous, {"glocalfair": json.dumps(scalars)}))

    def load_state(self) -> SimulationState:
        """Read the checkpoint."""
        arrays, scalars = read_safetensors(self.checkpoint)
        if scalars.get("format") != FORMAT:
            raise GlocalfairError(
                f"The checkpoint '{self.checkpoint}' is of another version of glocalfair. Go on with the one that "
                "wrote it, or begin again."
            )
        server = {name.partition("/")[2]: v for name, v in {**arrays, **scalars}.items() if name.startswith("server/")}
        try:
            return SimulationState(
                round=int(scalars["round"]),
                server=ServerState(arrays["server"], server),
                clients=_unpack_clients(arrays, scalars),
                tail=arrays.get("tail"),
                best=arrays.get("best"),
                best_loss=float(scalars.get("best_loss", math.inf)),
                patience=int(scalars["patience"]),
                diverged=str(scalars.get("diverged", "")),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise GlocalfairError(
                f"The checkpoint '{self.checkpoint}' is damaged: {type(error).__name__} {error}."
            ) from error

    def save_model(self, tensors: Mapping[str, np.ndarray[Any, Any]], about: Mapping[str, Any]) -> None:
        """Write the final model under its tensors' names."""
        from safetensors.numpy import save

        contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
        self._write(self.model, save(contiguous, {"glocalfair": json.dumps(jsonable(about))}))

    def save_result(self, result: Mapping[str, Any]) -> None:
        """Write the final metrics."""
        text = io.BytesIO()
        # Piece by piece: of very many clients the pieces take more memory than the data.
        pieces = json.JSONEncoder(ensure_ascii=False, indent=1).iterencode(jsonable(result))
        text.writelines(piece.encode() for piece in pieces)
        self._write(self.result, text.getvalue())

    def load_result(self) -> dict[str, Any]:
        """Return the final metrics."""
        if not self.result.exists():
            raise GlocalfairError(f"The run in '{self.path}' is not finished. Continue it with --resume.")
        return read_json(self.result)


def _records(path: Path) -> list[dict[str, Any]]:
    """Read the complete lines of a log; the last one may be half-written, even half a letter."""
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    try:
        return [json.loads(line) for line in lines[:-1]]
    except (ValueError, RecursionError) as error:
        raise GlocalfairError(f"Cannot read '{path}': {error}.") from error


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file; anything else is a clear error."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise GlocalfairError(f"Cannot read '{path}': {error}.") from error
    if not isinstance(content, dict):
        raise GlocalfairError(f"Cannot read '{path}': it must hold a JSON object.")
    return content


def _cut(path: Path, rounds: int) -> int:
    """Cut a log back to its first so many lines and return how many it has: in place, a full disk has room for that."""
    path.touch()
    lines = path.read_bytes().split(b"\n")[:-1][:rounds]
    os.truncate(path, sum(len(line) + 1 for line in lines))
    return len(lines)


def _to_disk(path: Path) -> None:
    """Wait until a file has reached the disk: a checkpoint must not outlive its log when the power fails."""
    if path.exists():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def _pack(
    prefix: str,
    values: Mapping[str, Value],
    arrays: dict[str, np.ndarray[Any, Any]],
    scalars: dict[str, Any],
) -> None:
    for key, value in values.items():
        if isinstance(value, np.ndarray):
            arrays[prefix + key] = value
        else:
            scalars[prefix + key] = value


def _pack_clients(
    states: Mapping[str, Mapping[str, Value]], arrays: dict[str, np.ndarray[Any, Any]], scalars: dict[str, Any]
) -> None:
    """Put small arrays of one kind side by side: a tensor for each of 10,000 clients takes long to write."""
    alike: dict[tuple[str, Any, tuple[int, ...]], dict[str, np.ndarray[Any, Any]]] = {}
    for client, values in states.items():
        for key, value in values.items():
            if isinstance(value, np.ndarray) and value.ndim and value.size <= _SMALL:
                alike.setdefault((key, value.dtype, value.shape), {})[client] = value
            else:
                _pack(f"client/{client}/", {key: value}, arrays, scalars)
    for number, ((key, _, _), held) in enumerate(alike.items()):
        name = f"clients/{number}/{key}"
        arrays[name], scalars[name] = np.stack(list(held.values())), list(held)


def _unpack_clients(arrays: Mapping[str, Floats], scalars: Mapping[str, Any]) -> dict[str, dict[str, Value]]:
    """Undo `_pack_clients`."""
    clients: dict[str, dict[str, Value]] = {}
    for name, value in {**scalars, **arrays}.items():
        kind, _, rest = name.partition("/")
        place, _, key = rest.rpartition("/")
        if kind == "client":
            clients.setdefault(place, {})[key] = value
        elif kind == "clients":
            for client, own in zip(scalars[name], arrays[name], strict=True):
                clients.setdefault(client, {})[key] = own
    return clients


def read_safetensors(path: Path) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Return arrays and JSON metadata of one of our files; anything else is a clear error."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        about = json.loads(header.get("glocalfair", "null"))
    except (OSError, SafetensorError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise GlocalfairError(f"Cannot read '{path}': {' '.join(str(error).split())}.") from error
    if not isinstance(about, dict):
        raise GlocalfairError(f"'{path}' was not written by glocalfair.")
    return arrays, about
