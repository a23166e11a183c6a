"""Where numbers lie, and what becomes of memory that was freed."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt


def keep_freed() -> None:
    """Have this process keep what it has freed for the next round, instead of giving it back and fetching it anew.

    glibc gives a large block back as soon as it is freed, and what lies free at the end of its heap beyond twice as
    much. What is large it learns from the largest block it has seen freed, up to 32 MB. To fetch memory again page by
    page takes as long as a round's arithmetic, so it is shown one such block, never touched. With another C library
    this does nothing.
    """
    np.empty((32 << 20) - 8192, dtype=np.uint8)


@contextmanager
def old_objects_left_alone() -> Iterator[None]:
    """Have Python's garbage collector pass over what is there already, everything imported above all.

    Every so many rounds it would go through all of it, a tenth of a second each time. Where somebody else has set
    objects aside, nothing is done.
    """
    mine = gc.get_freeze_count() == 0
    if mine:
        gc.freeze()
    try:
        yield
    finally:
        if mine:
            gc.unfreeze()


LINE = 64
"""Bytes of a line of the cache."""


def aligned(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an array, not filled, that begins with a line of the cache.

    The last bits of a matrix product may depend on where a matrix begins, and equal runs must give equal results.

    >>> aligned((3, 5), np.float32).ctypes.data % LINE
    0
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(size + LINE, dtype=np.uint8)
    begin = -room.ctypes.data % LINE
    return room[begin : begin + size].view(dtype).reshape(shape)
