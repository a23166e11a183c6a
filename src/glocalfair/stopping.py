"""Ctrl-C in two steps: the first ends a run after its current round with everything saved, the second at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STDERR = 2


@contextmanager
def handling(handler: Any, *signals: signal.Signals) -> Iterator[None]:
    """Let signals call a function for a while; only the main thread can, others leave them as they are."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def noted(*signals: signal.Signals) -> Iterator[None]:
    """Let signals wait for the end of the block; one is enough then, however many came."""
    came: list[int] = []
    with handling(lambda number, _: came.append(number), *signals):
        yield
    for number in came[:1]:
        signal.raise_signal(number)


@contextmanager
def waiting_for_later(*signals: signal.Signals) -> Iterator[None]:
    """Let signals wait for the end of the block; for processes that start in it they wait for ever."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # It lets signals through again when it starts, and it starts with the first process.
    resource_tracker.ensure_running()
    # To block them is not enough: a library's thread that blocks nothing takes them for the whole process.
    with noted(*signals):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Stop:
    """Whether somebody asked for a stop, by Ctrl-C or by the end signal of a system; a context manager.

    >>> with Stop() as stop:
    ...     stop()
    False
    """

    def __init__(self) -> None:
        self._asked = False
        self._handling = handling(self._take, *SIGNALS)

    def __call__(self) -> bool:
        """Return whether to stop after this round."""
        return self._asked

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        # Not through print: the signal may have come in the middle of one.
        os.write(_STDERR, b"\nStopping after this round; once more to stop at once.\n")

    def __enter__(self) -> Stop:
        self._handling.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._handling.__exit__(*error)
