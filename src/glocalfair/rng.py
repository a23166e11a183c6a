"""Randomness that does not depend on the order in which things happen.

There is no global generator. Whoever needs random numbers derives a generator from *what they are for*:
``generator(seed, round, client, purpose)``. Two clients never share a stream, so they may run in any order, in
any number of workers, or be resumed in the middle, and still draw the same numbers.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random.bit_generator import ISeedSequence


class _Key(ISeedSequence):
    """A key that is known already: without it numpy asks the system for entropy, which takes as long as the rest."""

    def __init__(self, digest: bytes) -> None:
        self._words = np.frombuffer(digest, "<u8")

    def generate_state(self, n_words: int, dtype: npt.DTypeLike = np.uint32) -> npt.NDArray[Any]:
        """Return the key."""
        return self._words


def generator(seed: int, *purpose: int | str) -> np.random.Generator:
    """Return a generator for one purpose, the same for equal arguments and independent otherwise.

    >>> a = generator(0, 3, "client-7", "batches").integers(100, size=3)
    >>> b = generator(0, 3, "client-7", "batches").integers(100, size=3)
    >>> bool((a == b).all())
    True
    """
    text = "\x1f".join([str(int(seed)), *(f"{type(part).__name__}:{part}" for part in purpose)])
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(_Key(digest)))  # type: ignore[arg-type]  # the stubs know SeedSequence alone
