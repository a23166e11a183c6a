"""A federation that trains in a moment, and comparisons on it in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from glocalfair.compare import Comparison, choose, compare
from glocalfair.compare.jobs import Job, plan, repeats
from glocalfair.config import Config, build


def small(**data: Any) -> Config:
    """Return the experiment: 4 clients, two sensitive attributes a and b."""
    return build(
        {
            "data": {"name": "synthetic", "rows": 600, "clients": 4, "features": 3, **data},
            "partition": {"name": "iid", "clients": 4},
            "train": {"rounds": 3, "lr": 0.2, "batch_size": 16, "participation": 0.75},
        }
    )


def compared(root: Path, *labels: str, config: Config | None = None, **options: Any) -> Comparison:
    """Compare methods in this process."""
    config = config or small()
    options = {"workers": 1, "seeds": None if "folds" in options else 2, **options}
    return compare(config, choose(labels, config), root, **options)[0]


def jobs(root: Path, *labels: str, seeds: int = 2) -> list[Job]:
    """Plan the runs of a comparison."""
    config = small()
    return plan(config, choose(labels, config), repeats(config, seeds, None), ["a", "b"], "per", root)


def result(path: Path) -> dict[str, Any]:
    """Read the result of a run."""
    content: dict[str, Any] = json.loads((path / "result.json").read_text())
    return content
