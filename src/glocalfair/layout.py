"""One flat vector for a model's weights, and the way back.

Everything between clients and server is a flat vector: averaging, the Gini coefficient, a proximal term and an
optimiser step are each one operation on it, and a cohort of clients is a matrix with a row for each client.
The trainable parameters come first, then frozen ones and the floating buffers (BatchNorm statistics), which are
averaged too.
Integer buffers (BatchNorm's batch counter) carry no information for a federation and stay where they are.

Kernels of convolutions lie in the vector with their channels last, the order in which a CPU convolves fastest: a model
trains on views of the vector, and nothing is copied to and fro in every step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from glocalfair.errors import GlocalfairError
from glocalfair.types import Floats

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Layout:
    """Names and shapes of the tensors in a flat weight vector, in order."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    trainable_tensors: int
    frozen_tensors: int = 0

    @classmethod
    def of(cls, module: torch.nn.Module) -> Layout:
        """Read the layout of a module: parameters, then frozen ones (`requires_grad` is off) and floating buffers."""
        parameters = [(name, tuple(p.shape), p.requires_grad) for name, p in module.named_parameters()]
        trained = [(name, shape) for name, shape, trains in parameters if trains]
        frozen = [(name, shape) for name, shape, trains in parameters if not trains]
        buffers = [(n, tuple(b.shape)) for n, b in module.named_buffers() if b.is_floating_point()]
        if not trained:
            raise GlocalfairError("The model has nothing to train: no parameter, or requires_grad is off for all.")
        names, shapes = zip(*(trained + frozen + buffers), strict=True)
        return cls(names, shapes, len(trained), len(frozen))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of entries of each tensor."""
        return tuple(prod(shape) for shape in self.shapes)

    @property
    def trainable(self) -> int:
        """Number of leading entries that are trained."""
        return sum(self.sizes[: self.trainable_tensors])

    @property
    def size(self) -> int:
        """Number of entries in all."""
        return sum(self.sizes)

    @property
    def statistics(self) -> int:
        """Number of trailing entries that are neither trained nor frozen."""
        return sum(self.sizes[self.trainable_tensors + self.frozen_tensors :])

    def parted(self) -> tuple[Layout, Layout]:
        """Return the layouts of what is trained and of the buffers behind it."""
        n = self.trainable_tensors
        return Layout(self.names[:n], self.shapes[:n], n), Layout(self.names[n:], self.shapes[n:], 0)

    def flatten(self, module: torch.nn.Module) -> torch.Tensor:
        """Copy a module's weights into one vector."""
        tensors = dict(module.named_parameters()) | dict(module.named_buffers())
        return self.joined([tensors[name].detach() for name in self.names])

    def joined(self, tensors: Sequence[torch.Tensor], out: torch.Tensor | None = None) -> torch.Tensor:
        """Copy tensors of the layout one after the other into one vector."""
        import torch

        return torch.cat([(t.movedim(1, -1) if t.dim() == 4 else t).reshape(-1) for t in tensors], out=out)

    def views(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """Split ``[..., size]`` into named tensors that share its memory; leading axes are kept."""
        # In many steps: a plain tuple and `split_with_sizes` take half the time of `torch.Size` and `split`.
        lead = tuple(flat.shape[:-1])
        parts = flat.split_with_sizes(self.sizes, -1)
        found = {}
        for name, shape, part in zip(self.names, self.shapes, parts, strict=True):
            if len(shape) == 4:
                outputs, inputs, height, width = shape
                found[name] = part.view(*lead, outputs, height, width, inputs).movedim(-1, -3)
            else:
                found[name] = part if len(shape) == 1 else part.view(lead + shape)
        return found

    def named(self, weights: Floats) -> dict[str, npt.NDArray[Any]]:
        """Return a vector's weights as named arrays, for others to read."""
        import torch

        return {name: view.contiguous().numpy() for name, view in self.views(torch.as_tensor(weights)).items()}

    def join(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Floats:
        """Put named arrays into one vector: the way back from `named`."""
        ordered = [np.moveaxis(a, 1, -1) if a.ndim == 4 else a for a in (arrays[name] for name in self.names)]
        return np.concatenate([a.reshape(-1) for a in ordered])

    def load(self, module: torch.nn.Module, flat: torch.Tensor) -> None:
        """Write a vector's weights into a module."""
        tensors = dict(module.named_parameters()) | dict(module.named_buffers())
        for name, value in self.views(flat).items():
            tensors[name].data.copy_(value)
