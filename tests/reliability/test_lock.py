"""Two processes on one run directory: the second is refused; a lock never outlives its process."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from glocalfair.errors import GlocalfairError
from glocalfair.lock import NAME, locked
from tests.reliability import processes
from tests.reliability.conftest import Faults
from tests.reliability.processes import SMALL, Slow, assert_same, command, complete, wait_for


def test_the_second_process_is_refused_and_a_killed_one_locks_nobody_out(tmp_path: Path, faults: Faults) -> None:
    folder, told = tmp_path / "run", tmp_path / "told"
    first = processes.start(*command(folder), told=tmp_path / "first", setup=Slow(60))
    wait_for(lambda: (folder / "federation.json").exists())
    for again in (["run", "--resume", folder], ["run", *SMALL, "--output", folder]):
        assert processes.run(*again, "--quiet", told=told) == 2
        expected = f"Error: Another process ({first.pid}) is writing to '{folder}'. Wait for it"
        assert told.read_text().startswith(expected) and told.read_text().count("\n") == 1
    first.kill()
    assert processes.finish(first) == -signal.SIGKILL
    assert (folder / NAME).exists()
    assert_same(complete(folder, told), complete(tmp_path / "whole", told))
    assert not (folder / NAME).exists()
    faults.record("second process on one run directory", "refused with the pid of the first", 2)


def test_one_after_the_other(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path):
            assert (tmp_path / NAME).read_text() == str(os.getpid())
            with pytest.raises(GlocalfairError, match=f"Another process \\({os.getpid()}\\)"), locked(tmp_path):
                pass
        assert not any(tmp_path.iterdir())


def test_a_stale_file_of_another_process_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("123456789")
    with locked(tmp_path):
        assert (tmp_path / NAME).read_text() == str(os.getpid())


def test_a_lock_removed_while_waiting_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that was opened may be gone from the directory by the time that it is locked."""
    import fcntl

    real, calls = fcntl.flock, []

    def flock(handle: int, how: int) -> None:
        if not calls:
            (tmp_path / NAME).unlink()
        calls.append(handle)
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path):
        assert len(calls) == 2
        assert (tmp_path / NAME).exists()


def test_whoever_is_patient_comes_in_when_the_other_ends(tmp_path: Path) -> None:
    inside, order = threading.Event(), []

    def first() -> None:
        with locked(tmp_path):
            inside.set()
            time.sleep(0.5)
            order.append("first")

    other = threading.Thread(target=first)
    other.start()
    inside.wait()
    with pytest.raises(GlocalfairError, match="Another process"), locked(tmp_path, patience=0.1):
        pass
    with locked(tmp_path, patience=60):
        order.append("second")
    other.join()
    assert order == ["first", "second"]
