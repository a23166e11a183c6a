"""A model as a function of flat weights, for one client or for many at once.

``forward(theta, extra, x)`` takes weights ``[clients, trainable]`` and inputs ``[clients, batch, ...]`` and returns
logits ``[clients, batch]`` with a *pullback*: the map from d loss / d logits to d loss / d weights. Every method of
this package shapes the loss through the logits alone, so this pair is all that training needs from a model.

`MLPNetwork` writes the pullback by hand (a few batched matrix products); `ModuleNetwork` takes any `nn.Module`.
"""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import nn

from glocalfair.layout import Layout
from glocalfair.local.dropout import Drop, given
from glocalfair.local.mapping import FAST, linear, mapped
from glocalfair.local.trial import tried
from glocalfair.models import MLP
from glocalfair.vision.network import PictureNetwork, gradients, one_each, train_mode

Pullback = Callable[[torch.Tensor], torch.Tensor]
Layer = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

_MASK = " mask "
_SMALL = 1 << 18
"""Products of more multiplications are torch's."""
_ONEDNN = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None
"""A linear layer with what follows it, as `torch.compile` calls it; not in every build of torch."""
_FEW, _LARGE = 512, 1 << 20
"""From so many rows and multiplications on it is faster."""


class Network(Protocol):
    """What the trainer needs from a model."""

    layout: Layout
    by_hand: bool
    """Whether its pullback does without autograd, whose bookkeeping can then be left out altogether."""
    device: torch.device
    """Where it runs."""
    drops: Sequence[Drop]
    """The masks that `forward` is to be given; known, as `kept` is, once `together` was asked."""
    kept: int
    """Numbers that a step keeps of each row, if they count."""

    def together(self, x: torch.Tensor) -> bool:
        """Say whether clients may be trained together, seen by some rows; not with state or randomness of its own."""

    def forward(
        self, theta: torch.Tensor, extra: torch.Tensor, x: torch.Tensor, *masks: torch.Tensor
    ) -> tuple[torch.Tensor, Pullback]:
        """Return logits in training mode and their pullback; updates BatchNorm statistics in `extra`.

        What the pullback returns is valid until the next one is called.
        """

    def logits(self, flat: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Return logits ``[clients, batch]`` in evaluation mode, for weights ``[clients, size]``."""


def network(module: nn.Module) -> Network:
    """Choose the fastest way to run a module."""
    if type(module) is MLP and all(p.requires_grad for p in module.parameters()):
        return MLPNetwork(module)
    # Along a single axis (a series) convolutions of many clients at once are several times as fast.
    pictures = any(isinstance(m, nn.modules.conv._ConvNd) and len(m.kernel_size) > 1 for m in module.modules())
    return PictureNetwork(module) if pictures else ModuleNetwork(module)


class _Moving(NamedTuple):
    """Weights that steps move, layer by layer, and room for their gradient with the views that it is written to."""

    theta: torch.Tensor
    layers: list[Layer]
    room: torch.Tensor
    slopes: list[tuple[torch.Tensor, torch.Tensor]]


class MLPNetwork:
    """The fused path: forward and backward of an `MLP` as batched matrix products."""

    by_hand = True
    drops: Sequence[Drop] = ()
    kept = 0

    def __init__(self, module: MLP) -> None:
        self.layout = Layout.of(module)
        self._sizes = list(self.layout.sizes)
        self._shapes = [(-1, *shape) if len(shape) > 1 else None for shape in self.layout.shapes]
        self.device = next(module.parameters()).device
        self._shown: tuple[torch.Tensor | None, list[Layer]] = None, []
        self._latest: _Moving | None = None

    def _parts(self, flat: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return views of weight and bias of each layer, with a leading client axis."""
        # `Layout.views` does much the same, but this runs in many steps.
        parts = flat.split_with_sizes(self._sizes, 1)
        views = [p if s is None else p.view(s) for p, s in zip(parts, self._shapes, strict=True)]
        return list(zip(views[::2], views[1::2], strict=True))

    def _layers(self, flat: torch.Tensor) -> list[Layer]:
        """Return weight, its transpose and bias of each layer, as products want them."""
        held, layers = self._shown
        if held is not flat:  # many rows are evaluated piece by piece
            layers = [(weight, weight.mT, bias.unsqueeze(1)) for weight, bias in self._parts(flat)]
            self._shown = flat, layers
        return layers

    def _moving(self, theta: torch.Tensor) -> _Moving:
        """Return what the steps of these clients need; most steps move the same rows as the one before."""
        latest = self._latest
        if latest is not None and latest.theta is theta:
            return latest
        room = torch.empty_like(theta)
        self._latest = latest = _Moving(theta, self._layers(theta), room, self._parts(room))
        return latest

    def _activations(self, layers: list[Layer], x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        *hidden, (last, _, last_bias) = layers
        inputs = [x]
        for _, transposed, bias in hidden:
            inputs.append(torch.baddbmm(bias, inputs[-1], transposed).relu_())
        # One output: a row times a matrix takes half as long as a matrix times a column.
        return torch.baddbmm(last_bias, last, inputs[-1].mT).squeeze(1), inputs

    def together(self, x: torch.Tensor) -> bool:
        """See `Network.together`."""
        return True

    def forward(
        self, theta: torch.Tensor, extra: torch.Tensor, x: torch.Tensor, *masks: torch.Tensor
    ) -> tuple[torch.Tensor, Pullback]:
        """See `Network.forward`."""
        moving = self._moving(theta)
        logits, inputs = self._activations(moving.layers, x)

        def pullback(slope: torch.Tensor) -> torch.Tensor:
            delta = slope.unsqueeze(2)
            for i in range(len(inputs) - 1, -1, -1):
                weight_slope, bias_slope = moving.slopes[i]
                _multiply(delta.mT, inputs[i], weight_slope)
                torch.sum(delta, 1, out=bias_slope)
                if i:
                    weight = moving.layers[i][0]
                    # The last layer has one output: a product of each row, no matrix product.
                    back = _multiply(delta, weight) if delta.shape[2] > 1 else delta * weight
                    # ReLU's own derivative: several times as fast as multiplying by a mask.
                    delta = torch.ops.aten.threshold_backward.default(back, inputs[i], 0)
            return moving.room

        return logits, pullback

    def logits(self, flat: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """See `Network.logits`."""
        layers = self._layers(flat)
        if len(flat) > 1:
            return self._activations(layers, x)[0]
        *hidden, (last, _, last_bias) = layers
        parts = []
        for shown in x[0].split(_powers(x.shape[1])):
            for weight, _, bias in hidden:
                shown = _hidden(shown, weight[0], bias[0, 0])
            parts.append(torch.addmm(last_bias[0], last[0], shown.mT))
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


class ModuleNetwork:
    """Any `nn.Module` with one logit, by autograd; many clients at once through `torch.func.vmap`.

    A module that is `rowwise` needs no `vmap`.
    """

    by_hand = False

    def __init__(self, module: nn.Module) -> None:
        self.layout = Layout.of(module)
        self.device = next(module.parameters()).device
        self.module = module
        self._of_thread = threading.local()
        self._tried = False
        self._writes: bool | None = None
        self._trained, self._buffers = self.layout.parted()
        self.drops: Sequence[Drop] = ()
        self.rowwise, self.kept = False, 0

    @property
    def own_module(self) -> nn.Module:
        """What is run in this thread."""
        return self._own.module

    @property
    def _own(self) -> _Own:
        """The thread's own copy of the module: weights are put into it for each call."""
        if not hasattr(self._of_thread, "own"):
            self._of_thread.own = _Own(copy.deepcopy(self.module))
        own: _Own = self._of_thread.own
        return own

    def _call(self, values: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return one_each(self._own(values, x, self.drops), x.shape[0])

    def _run(self, values: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        if len(x) == 1:
            return self._call({name: value[0] for name, value in values.items()}, x[0]).unsqueeze(0)
        if self._tried:
            return mapped(self._call, values, x)
        # When it is tried, and always with another torch: `vmap` checks what it is given, and loads what it needs.
        result: torch.Tensor = torch.func.vmap(self._call)(values, x)
        return result

    def together(self, x: torch.Tensor) -> bool:
        """See `Network.together`."""
        found = tried(ModuleNetwork(self.module), x)
        if found is None:
            return False
        self.drops, self.rowwise, self.kept = found
        self._tried = FAST
        return True

    def _rows(self, values: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        """Do what `_run` does with a module that is `rowwise`."""
        rows = x.shape[0] * x.shape[1]
        return one_each(self._own(values, x, self.drops), rows).view(x.shape[:2])

    def forward(
        self, theta: torch.Tensor, extra: torch.Tensor, x: torch.Tensor, *masks: torch.Tensor
    ) -> tuple[torch.Tensor, Pullback]:
        """See `Network.forward`."""
        own = self._own
        if own.normalises or not own.module.training:
            train_mode(own.module, x.shape[1])
        # A client by itself needs neither `vmap` nor an axis of clients.
        alone = len(theta) == 1 and not self.rowwise
        ends = own.ends(theta, self._trained, alone)
        values = leaves = ends.leaves
        if extra.shape[1]:
            # BatchNorm's statistics are written straight into it.
            buffers = self._buffers.views(extra[0] if alone else extra)
            values = leaves | {name: view.detach() for name, view in buffers.items()}
        if masks:
            values = values | _named([mask[0] for mask in masks] if alone else masks)
        with torch.enable_grad():
            if alone:
                logits = self._call(values, x[0])
            else:
                logits = self._rows(values, x) if self.rowwise else self._run(values, x)

        def pullback(slope: torch.Tensor) -> torch.Tensor:
            found = gradients(logits, slope.view(logits.shape), list(leaves.values()))
            for part, slopes in zip(ends.parts, found, strict=True):
                part.copy_(slopes)
            return ends.gradient

        return logits.detach().view(x.shape[:2]), pullback

    def logits(self, flat: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """See `Network.logits`."""
        self._own.module.eval()
        # A forward may write into its input, which other models are shown after this one. The first call tells.
        shown = x if self._writes is False else x.clone()
        before = shown._version
        with torch.no_grad():
            result = self._run(self.layout.views(flat), shown)
        if self._writes is None:
            self._writes = shown._version != before
        return result


class _Ends(NamedTuple):
    """Weights as named tensors of their own on the same memory, and the part of the gradient that belongs to each."""

    theta: torch.Tensor
    alone: bool
    leaves: dict[str, torch.Tensor]
    gradient: torch.Tensor
    parts: list[torch.Tensor]


class _Own:
    """A module that is called with weights from outside, as `torch.func.functional_call` does, with less ado."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module.train()
        for part in module.modules():
            if type(part) is nn.Linear:
                part.forward = functools.partial(_linear, part)  # type: ignore[method-assign]
        self.normalises = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in module.modules())
        names: dict[int, str] = {}
        # Where modules look for each tensor; tied ones have several places.
        self._places: list[tuple[dict[str, Any], str, str]] = []
        for prefix, part in module.named_modules():
            for held in (part._parameters, part._buffers):
                for key, tensor in held.items():
                    name = names.setdefault(id(tensor), f"{prefix}.{key}" if prefix else key)
                    self._places.append((held, key, name))
        self._latest: _Ends | None = None

    def ends(self, theta: torch.Tensor, layout: Layout, alone: bool) -> _Ends:
        """Return the weights as tensors at which autograd ends, and room for their gradient."""
        latest = self._latest
        if latest is not None and latest.theta is theta and latest.alone == alone:
            return latest  # most steps of a cohort move the same rows
        gradient = torch.empty_like(theta)
        views, parts = (layout.views(each[0] if alone else each) for each in (theta, gradient))
        leaves = {name: view.detach().requires_grad_() for name, view in views.items()}
        self._latest = _Ends(theta, alone, leaves, gradient, list(parts.values()))
        return self._latest

    def __call__(self, values: dict[str, torch.Tensor], x: torch.Tensor, drops: Sequence[Drop]) -> torch.Tensor:
        for held, key, name in self._places:
            if name in values:
                held[key] = values[name]
        masks = [values[name] for name in values if name.startswith(_MASK)] if drops else []
        with given(masks, drops) if masks else nullcontext():
            result: torch.Tensor = self.module(x)
        return result


def _powers(rows: int) -> list[int]:
    """Cut many rows into falling powers of two and a rest: oneDNN prepares itself for every other number of rows.

    >>> _powers(5000)
    [4096, 512, 392]
    """
    sizes = []
    while rows >= _FEW:
        sizes.append(1 << (rows.bit_length() - 1))
        rows -= sizes[-1]
    return [*sizes, rows] if rows or not sizes else sizes


def _hidden(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Return a hidden layer of one model on many rows, ``[rows, units]``."""
    many = x.shape[0] >= _FEW and x.shape[0] * weight.numel() >= _LARGE
    if _ONEDNN is not None and many and x.dtype == torch.float32 and x.device.type == "cpu":
        # All in one, and with AVX-512 wherever there is one: MKL, which else multiplies, has none for AMD.
        found: torch.Tensor = _ONEDNN(x, weight, bias, "relu", [], "")
        return found
    return torch.addmm(bias, x, weight.mT).relu_()


def _multiply(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Multiply many small matrices, by the faster library for these: numpy's, as long as it stays in one thread."""
    if left.shape[1] * left.shape[2] * right.shape[2] > _SMALL or left.device.type != "cpu":
        return torch.bmm(left, right) if out is None else torch.bmm(left, right, out=out)
    if out is None:
        return torch.from_numpy(np.matmul(left.numpy(), right.numpy()))
    np.matmul(left.numpy(), right.numpy(), out=out.numpy())
    return out


def _named(masks: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Give masks a name that no tensor of a module has."""
    return {f"{_MASK}{number}": mask for number, mask in enumerate(masks)}


def _linear(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    """Do what the layer does, for weights of one client or of all."""
    # There is no dropout in it, and whoever listens for that would be told of each of its operations.
    with torch._C.DisableTorchFunction():
        return linear(x, layer.weight, layer.bias)
