"""Worker processes: every task is done once, errors arrive, and nobody is left behind."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest

from glocalfair.compare.crew import Task, work_off
from glocalfair.errors import GlocalfairError
from glocalfair.stopping import handling, waiting_for_later


class OddError(Exception):
    """An error that cannot be read again: it is made of two things and gives one to its base."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


def ready() -> None:
    """Do nothing first."""


def write(path: Path) -> None:
    path.write_text(str(os.getpid()))


def fail(kind: str) -> None:
    if kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "exit":
        sys.exit("enough")
    raise {"odd": OddError("strange ", "thing"), "plain": GlocalfairError("a mistake")}[kind]


def endless(path: Path) -> None:
    write(path)
    time.sleep(600)


def test_every_task_is_done_by_as_many_processes_as_asked_for(tmp_path: Path) -> None:
    tasks: list[Task] = [(tmp_path / str(number),) for number in range(7)]
    ended = [one for turn in work_off(ready, write, tasks, 2, 0.05) for one in turn]
    assert sorted(ended) == [(number, None) for number in range(7)]
    assert len({path.read_text() for (path,) in tasks}) == 2
    assert not multiprocessing.active_children()


ERRORS = {
    "plain": GlocalfairError("a mistake"),
    "odd": RuntimeError("OddError: strange thing"),
    "exit": RuntimeError("SystemExit: enough"),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_comes_back_with_its_lines(kind: str) -> None:
    ((number, found),) = [one for turn in work_off(ready, fail, [(kind,)], 1, 5) for one in turn]
    assert number == 0
    assert repr(found) == repr(ERRORS[kind])
    assert "in fail" in found.__notes__[0]


def test_a_worker_that_dies_is_told() -> None:
    with pytest.raises(GlocalfairError, match="A worker process died"):
        list(work_off(ready, fail, [("killed",), ("plain",)], 2, 5))
    assert not multiprocessing.active_children()


def test_who_leaves_early_waits_for_nobody(tmp_path: Path) -> None:
    path = tmp_path / "started"
    with contextlib.closing(work_off(ready, endless, [(path,)], 1, 0.05)) as turns:
        while not path.exists():
            assert next(turns) == []
    assert not multiprocessing.active_children()


def test_a_second_interrupt_leaves_nobody_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes while the first one's processes are being ended; without care the others would work on for minutes."""
    kill, killed = SpawnProcess.kill, []

    def interrupted(process: SpawnProcess) -> None:
        kill(process)
        killed.append(process)
        if len(killed) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(SpawnProcess, "kill", interrupted)
    paths = [tmp_path / "one", tmp_path / "two"]
    turns = work_off(ready, endless, [(path,) for path in paths], 2, 0.05)
    while not all(path.exists() for path in paths):
        assert next(turns) == []
    with pytest.raises(KeyboardInterrupt):
        turns.close()
    assert not multiprocessing.active_children()


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="this system has no masks of signals")
def test_a_signal_waits_although_another_thread_takes_it() -> None:
    """Threads of libraries block nothing, and Python tells the main thread what came to any of them."""
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    passed = []
    try:
        # Whoever starts these tests in the background lets them ignore Ctrl-C.
        with handling(signal.default_int_handler, signal.SIGINT), pytest.raises(KeyboardInterrupt):
            with waiting_for_later(signal.SIGINT):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.05)
                passed.append("the block")
            passed.append("beyond")
    finally:
        over.set()
        other.join()
    assert passed == ["the block"]
