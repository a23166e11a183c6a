"""MobileNetV2 with one logit (Sandler et al. 2018), with torchvision's key names."""

from __future__ import annotations

import torch
from torch import nn

from glocalfair.vision.layers import MakeNorm, Norm, check, divisible, initialise, norm_layer

# Expansion, channels, blocks and first stride of each stage (Table 2 of the paper).
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
LAST = 1280


def _convolution(inputs: int, outputs: int, kernel: int, stride: int, groups: int, norm: MakeNorm) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, norm(outputs), nn.ReLU6())


class InvertedResidual(nn.Module):
    """Widen, filter each channel by itself, narrow; with a short cut where shapes allow it."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int, norm: MakeNorm) -> None:
        super().__init__()
        hidden = inputs * expansion
        layers: list[nn.Module] = [_convolution(inputs, hidden, 1, 1, 1, norm)] if expansion > 1 else []
        layers += [_convolution(hidden, hidden, 3, stride, hidden, norm)]
        layers += [nn.Conv2d(hidden, outputs, 1, bias=False), norm(outputs)]
        self.conv = nn.Sequential(*layers)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the block."""
        found: torch.Tensor = self.conv(x)
        return x + found if self.shortcut else found


class MobileNetV2(nn.Module):
    """MobileNetV2 for pictures of any side from 32 on.

    Parameters
    ----------
    channels
        Of the pictures.
    norm
        ``"batch"`` or ``"group"``.
    width
        Factor on the numbers of channels, but for the last 1280 (as in torchvision).
    reduce
        By how much the sides shrink in all: 32 as published; 16 and 8 leave out the first one and two strides.

    Examples
    --------
    >>> sum(p.numel() for p in MobileNetV2().parameters())
    2225153
    """

    def __init__(self, channels: int = 3, norm: Norm = "batch", width: float = 1.0, reduce: int = 32) -> None:
        super().__init__()
        check(width, reduce)
        make = norm_layer(norm)
        before, last = divisible(32 * width), divisible(LAST * max(1.0, width))
        layers: list[nn.Module] = [_convolution(channels, before, 3, 1 if reduce < 32 else 2, 1, make)]
        for number, (expansion, base, blocks, first) in enumerate(STAGES):
            outputs = divisible(base * width)
            stride = 1 if number == 1 and reduce == 8 else first
            for i in range(blocks):
                layers.append(InvertedResidual(before, outputs, stride if i == 0 else 1, expansion, make))
                before = outputs
        layers.append(_convolution(before, last, 1, 1, 1, make))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(last, 1))
        initialise(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one logit for each picture ``[rows, channels, height, width]``."""
        result: torch.Tensor = self.classifier(self.features(x).mean((2, 3)))
        return result.squeeze(-1)
