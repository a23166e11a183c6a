"""Grad-CAM (Selvaraju et al. 2017): where in a picture the evidence for a prediction lies."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from glocalfair.errors import GlocalfairError, unknown

LEAST = 4
"""A map of fewer pixels a side cannot tell a mouth from a chin."""


class Heat(NamedTuple):
    """Logits ``[rows]`` and heat ``[rows, h, w]``, ≥ 0, in the size of the layer's maps."""

    logits: torch.Tensor
    maps: torch.Tensor


def gradcam(module: nn.Module, x: torch.Tensor, layer: str, *, predicted: bool = True) -> Heat:
    """Return ReLU(Σ_c a_c A_c) with A the layer's maps and a_c the mean over the map of d logit / d A_c.

    Parameters
    ----------
    module
        A model with one logit, in evaluation mode.
    x
        Pictures ``[rows, channels, height, width]`` as the model takes them.
    layer
        Name of the layer, such as ``"layer4"``; see `pick_layer`.
    predicted
        Explain the predicted class: where the logit is negative its opposite is explained. Else the logit itself.
    """
    maps: list[torch.Tensor] = []

    def keep(_module: nn.Module, _inputs: object, output: torch.Tensor) -> torch.Tensor:
        # A layer behind may change its input in place; a leaf of our own also works where weights want no gradient.
        maps.append(output.detach().requires_grad_())
        return maps[0].clone()

    handle = _layers(module)[layer].register_forward_hook(keep)
    try:
        with torch.enable_grad():
            logits = module(x).reshape(-1)
            target = torch.where(logits < 0, -logits, logits) if predicted else logits
            (slope,) = torch.autograd.grad(target.sum(), maps[0])
    finally:
        handle.remove()
    heat = (slope.mean((2, 3), keepdim=True) * maps[0]).sum(1).relu()
    return Heat(logits.detach(), heat.detach())


def pick_layer(module: nn.Module, x: torch.Tensor, name: str = "") -> str:
    """Return the layer to look at: `name` if given, else the last with maps of at least 4 × 4 for such pictures."""
    layers = _layers(module)
    if name:
        if name not in layers:
            raise unknown("layer", name, layers)
        return name
    sizes: dict[str, int] = {}
    handles = []

    def note(which: str) -> None:
        def hook(_module: nn.Module, _inputs: object, output: object) -> None:
            if isinstance(output, torch.Tensor) and output.dim() == 4:
                sizes[which] = min(output.shape[2:])

        handles.append(layers[which].register_forward_hook(hook))

    for which in layers:
        note(which)
    try:
        with torch.no_grad():
            module(x[:1])
    finally:
        for handle in handles:
            handle.remove()
    if not sizes:
        raise GlocalfairError("Grad-CAM needs a model with convolutions, whose layers give maps. This one has none.")
    fine = [which for which, size in sizes.items() if size >= LEAST]
    return fine[-1] if fine else max(sizes, key=lambda which: sizes[which])


def _layers(module: nn.Module) -> dict[str, nn.Module]:
    """Name the layers worth looking at: blocks of our own models, else convolutions."""
    children = dict(module.named_children())
    stages = {name: child for name, child in children.items() if name.startswith("layer")}
    if isinstance(children.get("features"), nn.Sequential):
        stages = {f"features.{name}": child for name, child in children["features"].named_children()}
    return stages or {name: m for name, m in module.named_modules() if isinstance(m, nn.Conv2d)}


def upsampled(maps: torch.Tensor, side: int) -> torch.Tensor:
    """Return maps ``[rows, side, side]``, bilinear, as a picture's overlay."""
    return nn.functional.interpolate(maps.unsqueeze(1), (side, side), mode="bilinear", align_corners=False).squeeze(1)
