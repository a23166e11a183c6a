"""A disk that is full or may not be written to: one line that says so, and the last checkpoint is good."""

from __future__ import annotations

import ctypes
import errno
import os
import random
import resource
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.reliability import processes
from tests.reliability.conftest import Faults
from tests.reliability.processes import Break, Count, assert_same, command, complete

METHOD = ("--method", "glocalfair")
SAVED = "one-line error, bit-identical after --resume"


def assert_one_line(told: Path, *words: str) -> None:
    text = told.read_text()
    assert text.startswith("Error: Cannot write to ") and text.count("\n") == 1, text
    for word in words:
        assert word in text


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an uninterrupted run; the number of its operations on files is beside it."""
    place = tmp_path_factory.mktemp("whole")
    return complete(place / "run", place / "told", *METHOD, setup=Count(place / "count"))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_refuses_from_some_operation_on(number: int, whole: Path, tmp_path: Path, faults: Faults) -> None:
    told = tmp_path / "told"
    operations = int((whole.parent / "count").read_text())
    draw = random.Random(number)
    times = faults.number(2, 30)
    for time in range(times):
        folder = tmp_path / str(time)
        # The last operation removes the lock, and nobody minds if that fails.
        at = draw.randint(1, operations - 1)
        assert processes.run(*command(folder, *METHOD), told=told, setup=Break(at, number)) == 2, at
        assert_one_line(told, os.strerror(number))
        assert number != errno.ENOSPC or not list(folder.glob(".*.tmp")), "half a file takes room"
        assert_same(complete(folder, told, *METHOD), whole)
    faults.record(f"writing fails: {os.strerror(number).lower()}", SAVED, times)


@dataclass(frozen=True)
class NoFileAbove:
    """Setup for a child: the kernel refuses to let a file grow beyond a size."""

    size: int

    def __call__(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, self.size))


@pytest.mark.parametrize("size", [300, 1500, 3000])
def test_a_limit_of_the_kernel(size: int, whole: Path, tmp_path: Path, faults: Faults) -> None:
    told, folder = tmp_path / "told", tmp_path / "run"
    assert processes.run(*command(folder, *METHOD), told=told, setup=NoFileAbove(size)) == 2
    assert_one_line(told, "File too large")
    assert_same(complete(folder, told, *METHOD), whole)
    faults.record("writing fails: limit of the kernel on file sizes", SAVED)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path | None]:
    """Return a real file system of 16 kB, or None where mounting is not allowed."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "none", place]
    made = subprocess.run(mount, capture_output=True).returncode == 0
    yield place if made else None
    if made:
        subprocess.run(["umount", place], check=True)


def test_a_file_system_that_is_really_full(tiny_disk: Path | None, whole: Path, tmp_path: Path, faults: Faults) -> None:
    if tiny_disk is None:
        # Not root: the operations that refuse above stand for it.
        return
    told, folder = tmp_path / "told", tiny_disk / "run"
    assert processes.run(*command(folder, *METHOD), told=told) == 2
    assert_one_line(told, "No space left on device")
    subprocess.run(["mount", "-o", "remount,size=1m", tiny_disk], check=True)
    assert_same(complete(folder, told, *METHOD), whole)
    faults.record("file system of 16 kB runs full", SAVED)


@dataclass(frozen=True)
class Unprivileged:
    """Setup for a child: without root's right to write where the permissions forbid it."""

    def __call__(self) -> None:
        if os.geteuid() == 0:
            libc = ctypes.CDLL(None)
            header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
            assert libc.capget(header, sets) == 0
            sets[0] &= ~0b110  # the effective CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
            assert libc.capset(header, sets) == 0


def test_a_directory_that_may_not_be_written_to(whole: Path, tmp_path: Path, faults: Faults) -> None:
    told = tmp_path / "told"
    place = tmp_path / "place"
    folder = place / "run"
    assert processes.run(*command(folder, *METHOD), told=told, setup=Break(30)) < 0
    for path in (folder, place):
        path.chmod(0o555)
    assert processes.run(*command(folder), told=told, setup=Unprivileged()) == 2, told.read_text()
    assert_one_line(told, "Permission denied")
    assert processes.run(*command(place / "new", *METHOD), told=told, setup=Unprivileged()) == 2, told.read_text()
    assert_one_line(told, "Permission denied")
    for path in (folder, place):
        path.chmod(0o755)
    assert_same(complete(folder, told), whole)
    faults.record("read-only run directory", SAVED, 2)
