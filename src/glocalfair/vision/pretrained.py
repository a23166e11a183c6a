"""Starts a picture model from weights with torchvision's key names, such as those trained on ImageNet."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from glocalfair.errors import GlocalfairError

HEADS = ("fc.", "classifier.")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""What torchvision's models subtract from, and divide, pictures in [0, 1] by. Ours get pictures in [−1, 1]."""


def load_pretrained(module: nn.Module, path: Path) -> list[str]:
    """Copy the weights in a file into a model.

    A head of another size (ImageNet has 1000 classes) is left as it is. The first convolution is changed so that it
    does with our pictures in [−1, 1] what it did with normalised ones (exactly, but for a rim of its padding).

    Parameters
    ----------
    module
        A `ResNet34` or `MobileNetV2`; with ``norm = "group"`` the running statistics in the file are not used.
    path
        A ``.safetensors`` file, or a ``.pt``/``.pth`` file of plain tensors (nothing in it is executed).

    Returns
    -------
    The keys of the file that were ignored
    """
    given = read_weights(path)
    own = module.state_dict()
    ignored = sorted(key for key in given if _ignorable(key, own, given))
    taken = {key: value for key, value in given.items() if key not in ignored}
    for key in own:
        if key not in taken and not key.startswith(HEADS) and not key.endswith("num_batches_tracked"):
            raise GlocalfairError(f"'{path}' has no weights named '{key}': it belongs to another model.")
        if key in taken and taken[key].shape != own[key].shape:
            raise GlocalfairError(
                f"'{path}' has shape {tuple(taken[key].shape)} for '{key}', the model needs {tuple(own[key].shape)}. "
                "Use the 'width' that the weights were made with."
            )
    unknown = sorted(set(taken) - set(own))
    if unknown:
        raise GlocalfairError(f"'{path}' has weights named '{unknown[0]}', which the model has not.")
    module.load_state_dict({**own, **taken})
    _for_our_pictures(module)
    return ignored


def _ignorable(key: str, own: dict[str, torch.Tensor], given: dict[str, torch.Tensor]) -> bool:
    """Whether a key may be left out: a head of another size, or statistics that a GroupNorm has no use for."""
    if key.startswith(HEADS):
        return key not in own or own[key].shape != given[key].shape
    return key not in own and key.rpartition(".")[2] in ("running_mean", "running_var", "num_batches_tracked")


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Read named tensors; a pickle may hold tensors and nothing else."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise GlocalfairError(f"Cannot read the weights in '{path}': {' '.join(str(error).split())[:200]}.") from error
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise GlocalfairError(f"'{path}' must hold named tensors (a state dict). Got {type(found).__name__} instead.")
    return found


@torch.no_grad()
def _for_our_pictures(module: nn.Module) -> None:
    """Fold (x/2 + ½ − mean)/std into the first convolution and the statistics behind it."""
    first = next((m for m in module.modules() if isinstance(m, nn.Conv2d)), None)
    if first is None or first.in_channels != len(MEAN):
        return
    scale = torch.tensor([0.5 / s for s in STD]).view(1, -1, 1, 1)
    shift = torch.tensor([(0.5 - m) / s for m, s in zip(MEAN, STD, strict=True)]).view(1, -1, 1, 1)
    constant = (first.weight * shift).sum((1, 2, 3))
    first.weight.mul_(scale)
    norm = next((m for m in module.modules() if isinstance(m, nn.BatchNorm2d)), None)
    if norm is not None and norm.running_mean is not None:
        norm.running_mean.sub_(constant)
