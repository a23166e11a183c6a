"""One flat vector for a model's weights, and the way back.

Everything between clients and server is a flat vector: averaging, the Gini coefficient, a proximal term and an
optimiser step are each one operation on it, and a cohort of clients is a matrix with a row for each client.
The trainable parameters come first, then the floating buffers (BatchNorm statistics), which are averaged too.
Integer buffers (BatchNorm's batch counter) carry no information for a federation and stay where they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Layout:
    """Names and shapes of the tensors in a flat weight vector, in order."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    trainable_tensors: int

    @classmethod
    def of(cls, module: torch.nn.Module) -> Layout:
        """Read the layout of a module: parameters, then floating buffers."""
        trained = [(name, tuple(p.shape)) for name, p in module.named_parameters()]
        buffers = [(n, tuple(b.shape)) for n, b in module.named_buffers() if b.is_floating_point()]
        names, shapes = zip(*(trained + buffers), strict=True)
        return cls(names, shapes, len(trained))

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

    def flatten(self, module: torch.nn.Module) -> torch.Tensor:
        """Copy a module's weights into one vector."""
        import torch

        tensors = dict(module.named_parameters()) | dict(module.named_buffers())
        return torch.cat([tensors[name].detach().reshape(-1) for name in self.names])

    def views(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """Split ``[..., size]`` into named tensors that share its memory; leading axes are kept."""
        lead = flat.shape[:-1]
        parts = flat.split(self.sizes, dim=-1)
        return {
            name: part.view(*lead, *shape) for name, shape, part in zip(self.names, self.shapes, parts, strict=True)
        }

    def load(self, module: torch.nn.Module, flat: torch.Tensor) -> None:
        """Write a vector's weights into a module."""
        tensors = dict(module.named_parameters()) | dict(module.named_buffers())
        for name, value in self.views(flat).items():
            tensors[name].data.copy_(value)
