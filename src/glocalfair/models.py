"""Models with one logit: a row above 0 is predicted positive."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import nn

from glocalfair.errors import GlocalfairError, invalid, unknown
from glocalfair.rng import generator


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
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x).squeeze(-1)  # type: ignore[no-any-return]


Factory = Callable[[int], nn.Module]
"""Makes a model from the number of inputs."""

MODELS: dict[str, tuple[Callable[..., nn.Module], str]] = {
    "mlp": (MLP, "fully connected layers with ReLU; hidden = [32, 16] as in the paper"),
    "linear": (lambda inputs: MLP(inputs, ()), "logistic regression"),
}


def build(
    name: str, inputs: int, seed: int, hidden: Sequence[int] = (32, 16), factory: Factory | None = None
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

    Examples
    --------
    >>> build("own", 3, seed=0, factory=lambda inputs: nn.Linear(inputs, 1))
    Linear(in_features=3, out_features=1, bias=True)
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator(seed, "model").integers(2**62)))
        if factory is not None or ":" in name:
            return _made(name, factory or _imported(name), inputs)
        if name == "mlp":
            return MLP(inputs, hidden)
        if name not in MODELS:
            raise unknown("model", name, MODELS)
        return MODELS[name][0](inputs)


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
