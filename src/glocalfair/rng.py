"""Randomness that does not depend on the order in which things happen.

There is no global generator. Whoever needs random numbers derives a generator from *what they are for*:
``generator(seed, round, client, purpose)``. Two clients never share a stream, so they may run in any order, in
any number of workers, or be resumed in the middle, and still draw the same numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
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


def _text(purpose: Iterable[int | str]) -> str:
    return "".join(f"\x1f{type(part).__name__}:{part}" for part in purpose)


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def generator(seed: int, *purpose: int | str) -> np.random.Generator:
    """Return a generator for one purpose, the same for equal arguments and independent otherwise.

    >>> a = generator(0, 3, "client-7", "batches").integers(100, size=3)
    >>> b = generator(0, 3, "client-7", "batches").integers(100, size=3)
    >>> bool((a == b).all())
    True
    """
    return np.random.Generator(np.random.Philox(_Key(_key(f"{int(seed)}{_text(purpose)}"))))  # type: ignore[arg-type]  # the stubs know SeedSequence alone


def generators(
    seed: int, before: Iterable[int | str], names: Iterable[str], after: Iterable[int | str]
) -> Iterator[np.random.Generator]:
    """Yield ``generator(seed, *before, name, *after)`` for each name, to be used before the next.

    One object with ever other keys is sooner made.

    >>> many = generators(0, [3], ["a", "b"], ["batches"])
    >>> [g.integers(100) == generator(0, 3, name, "batches").integers(100) for g, name in zip(many, "ab")]
    [np.True_, np.True_]
    """
    head, tail = f"{int(seed)}{_text(before)}\x1fstr:", _text(after)
    source = np.random.Philox(_Key(bytes(16)))  # type: ignore[arg-type]
    fresh, result = source.state, np.random.Generator(source)
    for name in names:
        fresh["state"]["key"] = np.frombuffer(_key(f"{head}{name}{tail}"), "<u8")
        source.state = fresh
        yield result
