"""A table of made-up people, with everything in it that real tables have."""

from __future__ import annotations

import numpy as np
import polars as pl

from glocalfair.data.frame import FrameOptions, Prepared, prepare


def people(rows: int = 400, seed: int = 0) -> pl.DataFrame:
    """Draw people: numbers, words, gaps, a key, a date, a constant and a copy of the label."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, rows)
    sex = rng.choice(["Female", "Male"], rows)
    income = np.round(rng.normal(40 + 10 * (sex == "Male"), 12, rows), 2)
    approved = income + rng.normal(0, 8, rows) > 45
    return pl.DataFrame(
        {
            "person_id": np.arange(1000, 1000 + rows),
            "name": [f"name-{i}" for i in range(rows)],
            "age": age,
            "sex": sex,
            "race": rng.choice(["A", "B", "C"], rows, p=[0.6, 0.3, 0.1]),
            "income": pl.Series(income).set(pl.Series(rng.random(rows) < 0.1), None),
            "job": pl.Series(rng.choice(["clerk", "nurse", "none"], rows)).set(
                pl.Series(rng.random(rows) < 0.05), None
            ),
            "born": [f"19{i % 90 + 10}-0{i % 9 + 1}-11" for i in range(rows)],
            "country": ["X"] * rows,
            "hospital": rng.choice(["north", "south", "west"], rows),
            "letter": np.where(approved, "sent", "not sent"),
            "approved": np.where(approved, "yes", "no"),
        }
    )


def understood(frame: pl.DataFrame, **options: object) -> Prepared:
    """Prepare a table with the label 'approved' unless told otherwise."""
    return prepare(frame, FrameOptions(**{"label": "approved", **options}))  # type: ignore[arg-type]


def warned(found: Prepared, *words: str) -> bool:
    """Whether one of the warnings has all the words."""
    return any(all(word in line for word in words) for line in found.profile.warnings)
