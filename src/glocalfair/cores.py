"""How many cores there are for this process, and work that is shared among them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Given = TypeVar("Given")
Found = TypeVar("Found")

_MOST = 4
"""So many threads at most: each needs memory of its own."""


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def side_by_side(work: Callable[[Given], Found], items: Sequence[Given]) -> list[Found]:
    """Do work that takes long and leaves Python alone meanwhile, on up to four cores.

    >>> side_by_side(abs, [-2, 1])
    [2, 1]
    """
    if len(items) == 1:
        return [work(items[0])]
    with ThreadPoolExecutor(min(cores(), _MOST)) as pool:
        return list(pool.map(work, items))
