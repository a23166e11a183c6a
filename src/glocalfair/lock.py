"""One process at a time writes to a run directory."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from glocalfair.errors import GlocalfairError

NAME = ".lock"


@contextlib.contextmanager
def locked(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Keep other processes out of a run directory, which is made if need be, to the end of the block.

    If another process is in there, wait so many seconds for it to end, then refuse.

    The lock belongs to the open file and not to its name: it ends with this process, also by kill -9, and a file that
    is left behind locks nobody out. Windows has no such locks; there nobody is kept out.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = _patiently(folder / NAME, time.monotonic() + patience)
    except OSError as error:
        raise GlocalfairError(f"Cannot write to the output directory '{folder}': {error.strerror}.") from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            (folder / NAME).unlink()
        os.close(handle)


def _patiently(path: Path, until: float) -> int:
    while True:
        try:
            return _hold(path)
        except GlocalfairError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.2)


def _hold(path: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if sys.platform != "win32":
                import fcntl

                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held the lock before may have removed the file since it was opened here.
            if sys.platform == "win32" or os.path.samestat(os.fstat(handle), os.stat(path)):  # noqa: PTH116
                os.ftruncate(handle, 0)
                os.write(handle, str(os.getpid()).encode())
                return handle
        except BlockingIOError as error:
            owner = os.pread(handle, 20, 0).decode(errors="replace") or "unknown"
            os.close(handle)
            raise GlocalfairError(
                f"Another process ({owner}) is writing to '{path.parent}'. Wait for it or choose another directory."
            ) from error
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
