"""Models with one logit: a row above 0 is predicted positive."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from glocalfair.errors import GlocalfairError, invalid, unknown
from glocalfair.rng import generator
from glocalfair.vision.layers import Norm
from glocalfair.vision.mobilenet import MobileNetV2
from glocalfair.vision.resnet import ResNet34


class MLP(nn.Module):
    """Fully connected layers with ReLU between them and one logit at the end (the paper's 32-16-1)."""

    def __init__(self, inputs: int, hidden: Sequence[int] = (32, 16)) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise([inputs, *hidden, 1]))

    @property
    def linear(self) -> list[nn.Linear]:
        """The layers, typed."""
        return [layer for layer in self.layers if isinstance(layer, nn.Linear)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one logit for each row."""
        *hidden, last = self.layers  # a slice would be a module of its own, made anew in every call
        for layer in hidden:
            x = torch.relu(layer(x))
        return last(x).squeeze(-1)  # type: ignore[no-any-return]


Factory = Callable[[int], nn.Module]
"""Makes a model from the number of inputs."""

MODELS: dict[str, tuple[Callable[..., nn.Module], str]] = {
    "mlp": (MLP, "fully connected layers with ReLU; hidden = [32, 16] as in the paper"),
    "linear": (lambda inputs: MLP(inputs, ()), "logistic regression"),
    "resnet34": (ResNet34, "for pictures; the paper's for CelebA. Settings: norm, width, reduce, pretrained"),
    "mobilenet_v2": (MobileNetV2, "for pictures; the paper's for UTKFace. Settings: norm, width, reduce, pretrained"),
}
PICTURES = ("resnet34", "mobilenet_v2")
"""Models that take pictures ``[rows, channels, height, width]``."""


@dataclass(frozen=True)
class PictureSettings:
    """How a picture model is made; see `glocalfair.vision`."""

    channels: int = 3
    norm: Norm = "batch"
    width: float = 1.0
    reduce: int = 32


def build(
    name: str,
    inputs: int,
    seed: int,
    hidden: Sequence[int] = (32, 16),
    factory: Factory | None = None,
    pictures: PictureSettings | None = None,
) -> nn.Module:
    """Make a model with seeded weights.

    Parameters
    ----------
    name
        A name of `MODELS`, or ``package.module:factory`` for your own: the factory is called with the number of
        inputs and returns an `nn.Module` with one logit.
    inputs
        Number of features.
    seed
        Seed of the initial weights.
    hidden
        Sizes of the hidden layers of the ``mlp``.
    factory
        Makes the model instead; `name` is then only a name.
    pictures
        How to make a picture model; None for data that are no pictures.

    Examples
    --------
    >>> build("own", 3, seed=0, factory=lambda inputs: nn.Linear(inputs, 1))
    Linear(in_features=3, out_features=1, bias=True)
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator(seed, "model").integers(2**62)))
        if factory is not None or ":" in name:
            return _made(name, factory or _imported(name), inputs)
        if name not in MODELS:
            raise unknown("model", name, MODELS)
        if (name in PICTURES) != (pictures is not None):
            fitting = [known for known in MODELS if (known in PICTURES) == (pictures is not None)]
            what = "a table" if pictures is None else "pictures"
            raise GlocalfairError(
                f"Model '{name}' does not fit these data, which are {what}. Use {' or '.join(fitting)}."
            )
        if pictures is not None:
            return MODELS[name][0](**dataclasses.asdict(pictures))
        return MLP(inputs, hidden) if name == "mlp" else MODELS[name][0](inputs)


def _made(name: str, factory: Factory, inputs: int) -> nn.Module:
    """Call a user's factory; whatever goes wrong in it is told as its fault."""
    try:
        module = factory(inputs)
    except Exception as error:
        raise GlocalfairError(
            f"The model '{name}' could not be made with {inputs} inputs: {type(error).__name__}: {error}."
        ) from error
    if not isinstance(module, nn.Module) or not any(True for _ in module.parameters()):
        raise GlocalfairError(
            f"The model '{name}' must return a torch.nn.Module with weights. Got {type(module).__name__} instead."
        )
    return module


def _imported(path: str) -> Factory:
    module_name, _, attribute = path.partition(":")
    try:
        factory = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError, SyntaxError) as error:
        raise GlocalfairError(
            f"Cannot load the model '{path}': {error}. Give it as 'package.module:factory', importable from here."
        ) from error
    if not callable(factory):
        raise invalid("model.name", "a callable that takes the number of inputs", path)
    return factory  # type: ignore[no-any-return]
