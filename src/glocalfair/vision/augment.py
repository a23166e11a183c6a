"""Light augmentation: mirror a picture, move it by a few pixels. Drawn from a generator that is passed in."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

Augment = Literal["none", "flip", "flip+shift"]
SHIFT = 1 / 16
"""The furthest move, as a share of the side."""


def augmented(x: torch.Tensor, how: Augment, rng: np.random.Generator) -> torch.Tensor:
    """Return pictures ``[rows, channels, height, width]``, each mirrored with chance ½ and, if asked for, moved.

    What moves in from outside repeats the rim.

    >>> x = torch.arange(32.0).repeat(1, 3, 32, 1)
    >>> sorted({float(augmented(x, "flip", np.random.default_rng(seed))[0, 0, 0, 0]) for seed in range(9)})
    [0.0, 31.0]
    """
    if how == "none":
        return x
    rows, channels, height, width = x.shape
    down, across = np.tile(np.arange(height), (rows, 1)), np.tile(np.arange(width), (rows, 1))
    mirrored = rng.random(rows) < 0.5
    across[mirrored] = across[mirrored, ::-1]
    if how == "flip+shift":
        far = max(1, round(SHIFT * width))
        moves = rng.integers(-far, far + 1, size=(2, rows, 1))
        down = np.clip(down + moves[0], 0, height - 1)
        across = np.clip(across + moves[1], 0, width - 1)
    index = (np.arange(rows)[:, None, None, None], np.arange(channels)[:, None, None])
    return x[
        (*map(torch.as_tensor, index), torch.as_tensor(down)[:, None, :, None], torch.as_tensor(across)[:, None, None])
    ]
