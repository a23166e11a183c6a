"""The progress of many runs: a live bar in a terminal, about ten lines in a log file, nothing if silent."""

from __future__ import annotations

import time
from types import TracebackType

from rich import progress as bar

from glocalfair.compare.executor import Status
from glocalfair.report.console import console

_LINES = 10


class ComparisonProgress:
    """Shows how many runs are done, and the time left by their rounds; a context manager around the runs."""

    def __init__(self, silent: bool = False) -> None:
        self._console = console(stderr=True, quiet=silent)
        self._live = self._console.is_terminal and not silent
        self._begun = time.perf_counter()
        self._first: Status | None = None
        self._line = 0
        self.status: Status | None = None
        self._bar = bar.Progress(
            bar.TextColumn("{task.fields[runs]}"),
            bar.BarColumn(bar_width=20),
            bar.TimeRemainingColumn(compact=True),
            bar.TextColumn("{task.fields[left]}"),
            console=self._console,
            transient=True,
            disable=not self._live,
        )
        self._task = self._bar.add_task("", total=None, runs="Loading the data …", left="")

    def update(self, status: Status) -> None:
        """Take note of a new state."""
        if self._first is None:
            self._first, self._begun = status, time.perf_counter()
        self.status = status
        text = f"Run {status.runs}/{status.of_runs}"
        self._bar.update(self._task, total=status.of_rounds, completed=status.rounds, runs=text, left="left")
        line = status.rounds * _LINES // max(status.of_rounds, 1)
        if not self._live and line > self._line and status.rounds > self._first.rounds:
            self._line = line
            self._console.print(f"{text}, round {status.rounds}/{status.of_rounds} of all{self._left(status)}")

    def _left(self, status: Status) -> str:
        assert self._first is not None
        speed = (time.perf_counter() - self._begun) / (status.rounds - self._first.rounds)
        seconds = speed * (status.of_rounds - status.rounds)
        return f", {seconds:.0f} s left" if seconds >= 1 else ""

    def __enter__(self) -> ComparisonProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
