"""What a dataset module declares about itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from glocalfair.types import Dataset


@dataclass(frozen=True)
class DatasetEntry:
    """A dataset by name: its options (a frozen dataclass of simple fields) and the function that loads it.

    A module of `glocalfair.data` that defines ``DATASET = DatasetEntry(...)``, or ``DATASETS`` with several, is found
    by itself. A set of pictures also has `prepare` (list and decode, with progress) and `get` (where the user gets it).
    """

    name: str
    description: str
    options: type[Any]
    load: Callable[[Any], Dataset]
    licence: str = ""
    prepare: Callable[..., Any] | None = None
    get: str = ""
