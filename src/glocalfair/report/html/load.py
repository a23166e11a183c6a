"""Reads run directories: what a report needs of each, or one line that says which is unfinished or broken."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glocalfair.errors import GlocalfairError
from glocalfair.metrics.tables import Tables

_NEEDED = ("method", "seed", "rounds", "global", "local", "counts")


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run, as its directory tells it."""

    path: Path
    config: Mapping[str, Any]
    toml: str
    result: Mapping[str, Any]
    rounds: tuple[Mapping[str, Any], ...]
    federation: Mapping[str, Any] | None
    overall: Tables
    """Counts on the global test set."""

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(self.result["method"])

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return int(self.result["seed"])

    @property
    def fold(self) -> int | None:
        """Number of the test fold, if the run is one of several folds."""
        split = self.config.get("split", {})
        return int(split.get("fold", 0)) if split.get("folds") else None

    @property
    def which(self) -> str:
        """What tells the run from the others of its method."""
        return f"seed {self.seed}" if self.fold is None else f"fold {self.fold}"

    @property
    def data(self) -> str:
        """Name of the data; of a table of the user's own the name of its file."""
        told = self.config.get("data", {})
        return Path(str(told["path"])).stem if told.get("path") else str(told.get("name", "data"))


def find(paths: Iterable[Path]) -> list[Path]:
    """Return the run directories at or below the given paths, each once."""
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.is_dir():
            raise GlocalfairError(f"'{path}' is not a directory. Give run directories, or a directory that holds some.")
        here = [path] if (path / "config.toml").exists() else []
        below = here or sorted(file.parent for file in path.rglob("config.toml") if _is_run(file.parent))
        if not below:
            raise GlocalfairError(f"'{path}' holds no run: neither a config.toml nor a directory with one.")
        found.update({run.resolve(): run for run in below})
    return list(found.values())


def _is_run(path: Path) -> bool:
    """Whether a directory below is a run, finished or not: an experiment's config.toml alone is none."""
    return (path / "result.json").exists() or (path / "rounds.jsonl").exists()


def load(path: Path) -> Run:
    """Read one run directory."""
    if not (path / "result.json").exists():
        raise GlocalfairError(f"The run in '{path}' is not finished. Continue it with: glocalfair run --resume {path}")
    try:
        toml = (path / "config.toml").read_text(encoding="utf-8")
        result = json.loads((path / "result.json").read_text(encoding="utf-8"))
        lines = (path / "rounds.jsonl").read_text(encoding="utf-8").splitlines()
        holdings = path / "federation.json"
        missing = [key for key in _NEEDED if key not in result]
        if missing:
            raise GlocalfairError(f"result.json has no '{missing[0]}'")
        return Run(
            path=path,
            config=tomllib.loads(toml),
            toml=toml,
            result=result,
            rounds=tuple(json.loads(line) for line in lines if line),
            federation=json.loads(holdings.read_text(encoding="utf-8")) if holdings.exists() else None,
            overall=Tables.from_dict(result["counts"]["global"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise GlocalfairError(f"The run in '{path}' is broken: {reason.rstrip('.')}.") from error
