"""Dropout for many clients at once.

Masks are drawn outside of the model, each client's from a generator of its own and for its own rows alone, and go in
like inputs. So a mask depends on seed, round and client, and not on who is trained beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812 (torch's own name for it)
from torch.overrides import TorchFunctionMode

from glocalfair.errors import GlocalfairError


class Drop(NamedTuple):
    """One use of dropout in a model: the shape of what it is applied to, of a single row, and how likely it drops."""

    shape: tuple[int, ...]
    p: float


class Dropping(TorchFunctionMode):
    """While this is on, `torch.nn.functional.dropout` (and so `nn.Dropout`) asks for a mask and draws none."""

    def __init__(self, mask: Callable[[torch.Tensor, float], torch.Tensor | None]) -> None:
        super().__init__()
        self._mask = mask

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """See `torch.overrides.TorchFunctionMode`."""
        return (self._dropout if func is F.dropout else func)(*args, **(kwargs or {}))

    def _dropout(
        self, input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> torch.Tensor:
        mask = self._mask(input, p) if training and 0 < p <= 1 else None
        if mask is None:
            return F.dropout(input, p, training=False)  # nothing but its checks
        return input.mul_(mask) if inplace else input * mask


def given(masks: Iterable[torch.Tensor], drops: Iterable[Drop]) -> Dropping:
    """Have dropout take these masks, one after the other."""
    left = zip(masks, drops, strict=True)

    def following(input: torch.Tensor, p: float) -> torch.Tensor:
        mask, drop = next(left, (None, None))
        if mask is None or drop is None or mask.shape != input.shape or p != drop.p:
            raise GlocalfairError(
                "The model drops otherwise than when it was tried before the first round. If its dropout changes "
                "as it trains, let a counter in the model say so (self.calls += 1): it is trained by itself then."
            )
        return mask

    return Dropping(following)


def drawn(
    drops: Sequence[Drop],
    generators: Iterable[np.random.Generator],
    held: Iterable[Iterable[tuple[int, int]]],
    batches: int,
    width: int,
) -> list[torch.Tensor]:
    """Draw a mask ``[batches, width, ...]`` for each drop.

    Whom each generator belongs to holds some of the batches, each with so many rows; what is beyond is dropped.

    >>> rngs = [np.random.default_rng(k) for k in range(2)]
    >>> [mask] = drawn([Drop((3,), 0.5)], rngs, [[(0, 1)], [(1, 2)]], 2, 2)
    >>> mask.tolist()
    [[[2.0, 2.0, 2.0], [0.0, 0.0, 0.0]], [[0.0, 2.0, 2.0], [2.0, 0.0, 0.0]]]
    """
    sizes = [prod(drop.shape) for drop in drops]
    chance = np.zeros((batches, width, sum(sizes)), np.float32)
    for rng, own in zip(generators, held, strict=True):
        for batch, rows in own:
            rng.random(out=chance[batch, :rows], dtype=np.float32)
    parts = torch.from_numpy(chance).split(sizes, 2)
    for part, (_, p) in zip(parts, drops, strict=True):
        # What is kept makes up for what is not. In place, where no truth values become numbers: a third of the time.
        part.ge_(p).mul_(1 / (1 - p) if p < 1 else 0.0)
    return [part.view(*part.shape[:2], *shape) for part, (shape, _) in zip(parts, drops, strict=True)]
