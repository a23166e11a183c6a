"""Time of a process and its children, and its peak memory. Needs nothing but the standard library."""

from __future__ import annotations

import json
import os
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
    """Marks moments; the time from one mark to the next is a lap. The first laps warm up and do not count."""

    def __init__(self, cpu: Callable[[], float] = time.process_time) -> None:
        self._cpu = cpu
        self._begun: Seconds | None = None
        self._laps: list[Seconds] = []

    def begin(self) -> None:
        """Begin a lap here; what lay before was waiting and is no lap."""
        self._begun = Seconds(self._cpu(), time.perf_counter())

    def mark(self) -> None:
        """End a lap, if one has begun, and begin the next."""
        now = Seconds(self._cpu(), time.perf_counter())
        if self._begun is not None:
            self._laps.append(Seconds(now.cpu - self._begun.cpu, now.wall - self._begun.wall))
        self._begun = now

    def median(self, skip: int = 0) -> Seconds:
        """Return the median lap after the first `skip`."""
        return self._summary(statistics.median, skip)

    def mean(self, skip: int = 0) -> Seconds:
        """Return the mean lap after the first `skip`: for clocks that tick slowly."""
        return self._summary(statistics.fmean, skip)

    def _summary(self, of: Callable[[list[float]], float], skip: int) -> Seconds:
        laps = self._laps[skip:]
        return Seconds(of([lap.cpu for lap in laps]), of([lap.wall for lap in laps]))


def peak_megabytes() -> float:
    """Peak resident memory of this process, since it began or `forget_peak`.

    Not what `getrusage` tells: a process inherits that from the one that started it.
    """
    told = Path("/proc/self/status").read_text(encoding="ascii").partition("VmHWM:")[2]
    return int(told.split()[0]) / 1024


def forget_peak() -> None:
    """Have `peak_megabytes` begin anew at what the process holds now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def timed(function: Callable[[], Any]) -> Seconds:
    """Run once and return how long it took."""
    laps = Laps()
    laps.mark()
    function()
    laps.mark()
    return laps.median()


def report(seconds: Seconds | None = None, **more: Any) -> None:
    """Tell the parent process what was measured: one line of JSON, the last one."""
    sys.stdout.write("\n" + json.dumps({**(asdict(seconds) if seconds else {}), **more}) + "\n")
