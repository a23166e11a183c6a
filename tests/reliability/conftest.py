"""Counts the faults that these tests try and what came of them; `make faults` makes a table of the counts.

With ``GLOCALFAIR_FAULTS=DIR`` in the environment the tests try many more faults and write their counts into DIR.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

VARIABLE = "GLOCALFAIR_FAULTS"


@dataclass
class Faults:
    """What one test tried, by kind of fault and outcome."""

    thorough: bool
    """Whether the counts are wanted: then try many faults, not just enough to notice a mistake."""
    counts: dict[tuple[str, str], int] = field(default_factory=dict)

    def record(self, kind: str, outcome: str, count: int = 1) -> None:
        """Count faults that were tried. Call it after the assertions: what is counted has held.

        Parameters
        ----------
        kind
            The fault, as a row of the table calls it: "kill -9 inside a write".
        outcome
            What came of it: "resumed, bit-identical".
        count
            How many times.
        """
        self.counts[kind, outcome] = self.counts.get((kind, outcome), 0) + count

    def number(self, few: int, many: int) -> int:
        """Return how many faults to try: few in the usual tests, many for the table."""
        return many if self.thorough else few


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> Iterator[Faults]:
    """Count the faults of one test; written when the test is over."""
    folder = os.environ.get(VARIABLE)
    counted = Faults(thorough=bool(folder))
    yield counted
    if folder:
        # One file for each process: tests may run in parallel.
        with (Path(folder) / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
            for (kind, outcome), count in counted.counts.items():
                line = {"test": request.node.nodeid, "kind": kind, "outcome": outcome, "count": count}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
