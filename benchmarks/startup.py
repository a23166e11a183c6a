"""How long the first word and the first round take."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.processes import surroundings
from benchmarks.table import Line

PART = "6 Start-up"
GLOCALFAIR = [sys.executable, "-m", "glocalfair"]


def words() -> float:
    """Seconds of ``glocalfair --help``."""
    begun = time.perf_counter()
    subprocess.run([*GLOCALFAIR, "--help"], check=True, capture_output=True, env=surroundings())
    return time.perf_counter() - begun


def first_round() -> float:
    """Seconds from the command to the first line in the log of ``glocalfair run adult``."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "run" / "rounds.jsonl"
        begun = time.perf_counter()
        process = subprocess.Popen([*GLOCALFAIR, "run", "adult", "--output", str(log.parent), "--quiet"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=surroundings())  # fmt: skip
        while process.poll() is None and not (log.exists() and log.stat().st_size):
            time.sleep(0.01)
        seconds = time.perf_counter() - begun
        process.terminate()
        process.wait()
        assert log.stat().st_size, "the run did not start"
        return seconds


def lines(repetitions: int) -> Iterator[Line]:
    """Measure both; the best of several, because a busy machine only ever adds."""
    best = f"best of {repetitions}, wall"
    yield Line(PART, "glocalfair --help", best, min(words() for _ in range(repetitions)), "s", 0.5, "less")
    first = min(first_round() for _ in range(repetitions))
    yield Line(PART, "glocalfair run adult, first round", best, first, "s", 5, "less")
