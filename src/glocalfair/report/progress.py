"""The progress of a run: a live bar in a terminal, about ten lines in a log file, nothing if silent."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich import progress as bar

from glocalfair.report.console import console
from glocalfair.report.text import figure

_LINES = 10


def headline(record: Mapping[str, Any]) -> str:
    """Write what a round achieved: loss, and on validation data accuracy and EOD.

    >>> headline({"loss": 0.3121, "validation": {"accuracy": 0.85, "eod": {"sex": 0.08}}})
    'loss .312  accuracy .850  EOD sex .080'
    """
    parts = [f"loss {figure(record.get('loss'))}"]
    validation = record.get("validation")
    if validation:
        parts.append(f"accuracy {figure(validation['accuracy'])}")
        gaps = " ".join(f"{name} {figure(value)}" for name, value in validation["eod"].items())
        parts += [f"EOD {gaps}"] if gaps else []
    return "  ".join(parts)


class Progress:
    """Shows the rounds of a run on stderr; a context manager around the training.

    Parameters
    ----------
    rounds, done
        The last round and how many of them lie behind a resumed run.
    silent
        Show nothing.
    """

    def __init__(self, rounds: int, done: int = 0, silent: bool = False) -> None:
        self.rounds = rounds
        self.round = done
        self._validation: Any = None
        self._console = console(stderr=True, quiet=silent)
        self._live = (self._console.is_terminal or self._console.is_jupyter) and not silent
        self._begun = time.perf_counter()
        self._done = done
        self._bar = bar.Progress(
            bar.TextColumn("Round {task.completed:.0f}/{task.total:.0f}"),
            bar.BarColumn(bar_width=10),
            bar.TextColumn("{task.fields[headline]}", markup=False),
            bar.TimeRemainingColumn(compact=True),
            bar.TextColumn("left"),
            console=self._console,
            transient=True,
            disable=not self._live,
        )
        self._task = self._bar.add_task("", total=rounds, completed=done, headline="")

    def update(self, record: Mapping[str, Any]) -> None:
        """Take note of a finished round."""
        self.round = int(record["round"])
        # Rounds between two evaluations show the last one.
        self._validation = record.get("validation", self._validation)
        text = headline({**record, "validation": self._validation})
        self._bar.update(self._task, completed=self.round, headline=text)
        if not self._live and self.round * _LINES // self.rounds > (self.round - 1) * _LINES // self.rounds:
            self._console.print(f"Round {self.round}/{self.rounds}  {text}{self._left()}", soft_wrap=True)

    def _left(self) -> str:
        behind = self.round - self._done
        seconds = (time.perf_counter() - self._begun) / behind * (self.rounds - self.round)
        return f"  {seconds:.0f} s left" if seconds >= 1 else ""

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
