"""ResNet34 with one logit (He et al. 2016), with torchvision's key names."""

from __future__ import annotations

import torch
from torch import nn

from glocalfair.vision.layers import MakeNorm, Norm, check, divisible, initialise, norm_layer

BLOCKS = (3, 4, 6, 3)


class Block(nn.Module):
    """Two 3×3 convolutions beside a short cut."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: MakeNorm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = norm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = norm(outputs)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add what the convolutions found to what came in."""
        found = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        result: torch.Tensor = found + (x if self.downsample is None else self.downsample(x))
        return torch.relu(result)


class ResNet34(nn.Module):
    """ResNet34 for pictures of any side from 32 on.

    Parameters
    ----------
    channels
        Of the pictures.
    norm
        ``"batch"`` or ``"group"``.
    width
        Factor on all numbers of channels.
    reduce
        By how much the sides shrink in all: 32 as published. 16 leaves the max-pooling out, 8 also the first stride:
        for small pictures, at 4 and 16 times the work.

    Examples
    --------
    >>> sum(p.numel() for p in ResNet34().parameters())
    21285185
    """

    def __init__(self, channels: int = 3, norm: Norm = "batch", width: float = 1.0, reduce: int = 32) -> None:
        super().__init__()
        check(width, reduce)
        make = norm_layer(norm)
        sizes = [divisible(c * width) for c in (64, 128, 256, 512)]
        self.conv1 = nn.Conv2d(channels, sizes[0], 7, 1 if reduce == 8 else 2, 3, bias=False)
        self.bn1 = make(sizes[0])
        self.maxpool: nn.Module = nn.MaxPool2d(3, 2, 1) if reduce == 32 else nn.Identity()
        before = sizes[0]
        for stage, (size, blocks) in enumerate(zip(sizes, BLOCKS, strict=True)):
            layers = [
                Block(before if i == 0 else size, size, 2 if i == 0 and stage else 1, make) for i in range(blocks)
            ]
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layers))
            before = size
        self.fc = nn.Linear(before, 1)
        initialise(self)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the last feature maps."""
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        for stage in range(len(BLOCKS)):
            x = getattr(self, f"layer{stage + 1}")(x)
        return x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one logit for each picture ``[rows, channels, height, width]``."""
        result: torch.Tensor = self.fc(self.features(x).mean((2, 3)))
        return result.squeeze(-1)
