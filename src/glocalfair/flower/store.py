"""A site's own disk: its state after each round with the reply it sent, and its log.

A round is one file, written in one step, named by run and round. So a site that is killed loses nothing, and a round
that comes again gets the reply that was sent before: a dual variable never steps twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from glocalfair.errors import GlocalfairError
from glocalfair.flower.wire import Content
from glocalfair.runs import jsonable, read_safetensors, write_atomically
from glocalfair.types import ClientState, Value

STATE, REPLY = "state/", "reply/"


class Store:
    """The folder of one site."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log_file = folder / "log.jsonl"

    def _path(self, run: str, number: int) -> Path:
        # The name of a run comes from elsewhere: it must not say where a file goes.
        key = hashlib.blake2b(run.encode(), digest_size=8).hexdigest()
        return self.folder / key / f"round-{number:06d}.safetensors"

    def state(self, run: str, number: int) -> ClientState:
        """Return the state after a round of a run; before the first one there is none."""
        if number == 0:
            return {}
        path = self._path(run, number)
        if not path.exists():
            raise GlocalfairError(
                f"This site has no state after round {number} of run '{run}': its folder is not the one it began "
                "with. Put it back, or start a new run."
            )
        return _part(*read_safetensors(path), STATE)

    def reply(self, run: str, number: int, digest: str) -> Content | None:
        """Return what was replied to the same request before."""
        path = self._path(run, number)
        if not path.exists():
            return None
        arrays, scalars = read_safetensors(path)
        if scalars.get("digest") != digest:
            return None
        return Content.of({}, **_part(arrays, scalars, REPLY))

    def save(self, run: str, number: int, digest: str, state: ClientState, reply: Content) -> None:
        """Keep state and reply of a round."""
        from safetensors.numpy import save

        mixed: dict[str, Value] = {STATE + key: value for key, value in state.items()}
        mixed |= {REPLY + key: value for key, value in {**reply.values, **reply.arrays}.items()}
        arrays = {key: np.ascontiguousarray(v) for key, v in mixed.items() if isinstance(v, np.ndarray)}
        scalars = {key: value for key, value in mixed.items() if key not in arrays}
        path = self._path(run, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, save(arrays, {"glocalfair": json.dumps({**scalars, "digest": digest})}))

    def forget(self, run: str, before: int) -> None:
        """Remove rounds that nobody can ask for again."""
        oldest = self._path(run, before)
        for path in oldest.parent.glob("round-*.safetensors"):
            if path.name < oldest.name:
                path.unlink(missing_ok=True)

    def log(self, **line: Any) -> None:
        """Add a line to the site's own log; it never leaves the site."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(jsonable(line), ensure_ascii=False) + "\n")


def _part(arrays: Mapping[str, Any], scalars: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {k.removeprefix(prefix): v for k, v in {**arrays, **scalars}.items() if k.startswith(prefix)}
