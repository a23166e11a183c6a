"""What both picture models are built of: the choice of norm, and how the first halvings are left out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from torch import nn

from glocalfair.errors import invalid

Norm = Literal["batch", "group"]
MakeNorm = Callable[[int], nn.Module]
REDUCE = (8, 16, 32)
LEAST_GROUP = 4


def norm_layer(name: Norm) -> MakeNorm:
    """Return what makes a norm layer for so many channels.

    ``"batch"`` has running statistics, which are averaged like weights. ``"group"`` has none: what a row becomes does
    not depend on the rows beside it, so clients that differ do not disagree about statistics.

    >>> norm_layer("group")(64).num_groups
    16
    """
    if name == "batch":
        return nn.BatchNorm2d
    if name == "group":
        # At least four channels a group: one channel of one pixel would always become 0.
        return lambda channels: nn.GroupNorm(max(1, math.gcd(channels // LEAST_GROUP, 32)), channels)
    raise invalid("model.norm", "'batch' or 'group'", name)


def divisible(channels: float) -> int:
    """Round a number of channels to a multiple of 8, at least 8 and not more than a tenth below (torchvision's rule).

    >>> [divisible(v) for v in (3, 24, 12, 33.6)]
    [8, 24, 16, 32]
    """
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def check(width: float, reduce: int) -> None:
    """Refuse settings that no picture model can be made with."""
    if not width > 0:
        raise invalid("model.width", "above 0", width)
    if reduce not in REDUCE:
        raise invalid("model.reduce", "8, 16 or 32", reduce)


def initialise(module: nn.Module) -> None:
    """Draw convolutions for ReLU (He et al. 2015, fan out), as torchvision does."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
