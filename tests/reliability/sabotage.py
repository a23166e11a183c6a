"""Faults inside a process, at one of its own operations on files: the product knows nothing of this.

`Operations` numbers everything that the process does to the disk (writes, syncs, renames, truncations, removals). At
the chosen number it either dies by SIGKILL, for a write with half of the bytes written, or finds a disk that refuses.
"""

from __future__ import annotations

import errno
import io
import os
import signal
from collections.abc import Callable
from typing import Any

PATCHED = ("fsync", "replace", "truncate", "ftruncate", "unlink", "rename", "write")


class Operations:
    """Counts the operations of this process below a directory and breaks one of them.

    Parameters
    ----------
    at
        The number of the operation that is broken; 0 for none.
    refuse
        None to die there; else the error number that this and every later operation fails with.
    """

    def __init__(self, at: int, refuse: int | None = None) -> None:
        self.at, self.refuse, self.count = at, refuse, 0

    def install(self) -> None:
        """Put the counting in place of the real operations; for a process that ends soon."""
        for name in PATCHED:
            setattr(os, name, self._counted(getattr(os, name)))
        real = io.open

        def opened(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
            made = real(file, mode, *rest, **named)
            return made if mode in ("r", "rb") else _File(made, self)

        io.open = opened

    def reached(self, half: Callable[[], None] | None = None) -> None:
        """Count an operation; at the chosen one do half of it and die, or refuse."""
        self.count += 1
        if self.refuse is None and self.count == self.at:
            if half is not None:
                half()
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.refuse is not None and self.count >= self.at > 0:
            if half is not None and self.count == self.at:
                half()
            raise OSError(self.refuse, os.strerror(self.refuse))

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            # What a process says about its end is no harm to a run.
            if function.__name__ == "write" and arguments[0] in (1, 2):
                return function(*arguments, **named)
            # Cutting and removing give room back: a full disk allows them.
            if self.refuse != errno.ENOSPC or function.__name__ not in ("truncate", "ftruncate", "unlink"):
                self.reached()
            return function(*arguments, **named)

        return counted


class _File:
    """A file whose writes are counted."""

    def __init__(self, file: Any, operations: Operations) -> None:
        self._file, self._operations = file, operations

    def write(self, content: Any) -> Any:
        def half() -> None:
            self._file.write(content[: len(content) // 2])
            self._file.flush()

        self._operations.reached(half)
        return self._file.write(content)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *error: Any) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
