"""A table of the paper's kind on a federation that trains in a moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from glocalfair.reproduce import Sheet, Table, reproduce
from glocalfair.reproduce.spec import Source, build_table

SOURCE = Source(
    "made-up",
    "Made up",
    ("a", "b"),
    ("gender", "age"),
    {
        "data": {"name": "synthetic", "rows": 600, "clients": 4, "features": 3},
        "partition": {"name": "iid", "clients": 4},
        "train": {"rounds": 30, "lr": 0.2, "batch_size": 16, "participation": 0.75},
    },
    {},
)


def table(name: str = "table1", *columns: str, **changes: Any) -> Table:
    """Return a table with FedAvg and two settings of GLocalFair, two seeds of two rounds."""
    return build_table(
        name,
        {
            "title": "Small",
            "claim": "None.",
            "columns": list(columns or ("global.eod.0", "global.accuracy")),
            "baseline": "fedavg",
            "rows": [
                {"label": "fedavg", "method": "fedavg"},
                {"label": "γ = 0", "settings": {"gamma": 0.0}, "paper": "none"},
                {"label": "γ = 0.6", "settings": {"gamma": 0.6}, "paper": "some"},
            ],
            "variants": [{"label": "glocalfair", "method": "glocalfair"}],
            "budgets": {"quick": {"seeds": 2, "rounds": 2}},
            "figures_of": {"made-up": "celeba"},
            "paper": {"celeba": {"main": {"fedavg": [0.45, 0.83], "some": [0.09, 0.79]}}} if not columns else {},
            **changes,
        },
    )


def made(root: Path, of: Table | None = None, **options: Any) -> Sheet:
    """Reproduce a small table in this process."""
    return reproduce(of or table(), SOURCE, "quick", root, workers=1, command="glocalfair reproduce", **options)
