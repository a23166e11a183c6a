"""Time of a process and its children, and its peak memory. Needs nothing but the standard library."""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Seconds:
    """CPU and wall seconds."""

    cpu: float
    wall: float


def tree_cpu() -> float:
    """CPU seconds of this process and of all its descendants that are alive."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = sum(map(int, fields[11:15]))
    mine, total = os.getpid(), 0
    for process in used:
        above = process
        while above not in (0, mine) and above in parents:
            above = parents[above]
        total += used[process] * (above == mine)
    return total / _TICK


class Laps:
    """Marks moments; the time between two marks is a lap. The first laps warm up and do not count."""

    def __init__(self, cpu: Callable[[], float] = time.process_time) -> None:
        self._cpu = cpu
        self._marks: list[tuple[float, float]] = []

    def mark(self) -> None:
        """Remember this moment."""
        self._marks.append((self._cpu(), time.perf_counter()))

    def median(self, skip: int = 0) -> Seconds:
        """Return the median lap after the first `skip`."""
        laps = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(self._marks, self._marks[1:], strict=False)][skip:]
        return Seconds(statistics.median(cpu for cpu, _ in laps), statistics.median(wall for _, wall in laps))

    def mean(self, skip: int = 0) -> Seconds:
        """Return the mean lap after the first `skip`: for clocks that tick slowly."""
        (cpu0, wall0), (cpu1, wall1) = self._marks[skip], self._marks[-1]
        laps = len(self._marks) - 1 - skip
        return Seconds((cpu1 - cpu0) / laps, (wall1 - wall0) / laps)


def peak_megabytes() -> float:
    """Peak resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(function: Callable[[], Any]) -> Seconds:
    """Run once and return how long it took."""
    laps = Laps()
    laps.mark()
    function()
    laps.mark()
    return laps.median()


def report(seconds: Seconds, **more: Any) -> None:
    """Tell the parent process what was measured: one line of JSON, the last one."""
    sys.stdout.write("\n" + json.dumps({**asdict(seconds), "megabytes": peak_megabytes(), **more}) + "\n")
