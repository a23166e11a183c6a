"""The way a model that convolves pictures is run: one client at a time, all cores in the convolution.

Weights stay one flat vector (as everywhere in this package), and the module's own parameters are views of it, in the
channels-last order in which convolutions on a CPU are fastest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from glocalfair.errors import GlocalfairError
from glocalfair.layout import Layout
from glocalfair.local.dropout import Drop

Pullback = Callable[[torch.Tensor], torch.Tensor]


def train_mode(module: nn.Module, rows: int) -> None:
    """Switch a module to training, but for BatchNorm before a batch of one row, which has no variance.

    A client's last batch may be one; torch would stop there. The layer takes its running statistics then.
    """
    module.train()
    if rows == 1:
        for layer in module.modules():
            if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                layer.eval()


def one_each(logits: torch.Tensor, rows: int) -> torch.Tensor:
    """Return logits as a vector, if there is one for each row."""
    if logits.numel() != rows:
        raise GlocalfairError(
            f"Binary classification only for now: the model must return one logit for each row. "
            f"Got shape {tuple(logits.shape)} for {rows} rows."
        )
    return logits.reshape(-1)


def gradients(logits: torch.Tensor, slope: torch.Tensor, leaves: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Pull d loss / d logits back to the weights; those that the model does not use get zeros.

    The same as ``torch.autograd.grad(logits, leaves, slope, materialize_grads=True)``, which loads a computer algebra
    system first (a second), and whose checks take as long as the derivatives of a small model.
    """
    run = torch.autograd.Variable._execution_engine.run_backward
    found = run((logits,), (slope,), False, False, tuple(leaves), allow_unreachable=True, accumulate_grad=False)
    return tuple(torch.zeros_like(leaf) if each is None else each for each, leaf in zip(found, leaves, strict=True))


class PictureNetwork:
    """A module that convolves pictures and has one logit; see `glocalfair.local.network.Network`.

    Clients are never batched: with weights of their own a convolution of many clients is hardly faster than one after
    the other, and BatchNorm's statistics would mix.
    """

    by_hand = False
    drops: Sequence[Drop] = ()
    kept = 0

    def __init__(self, module: nn.Module) -> None:
        self.layout = Layout.of(module)
        self.module = module
        self.device = next(module.parameters()).device
        tensors = dict(module.named_parameters()) | dict(module.named_buffers())
        self._tensors = [tensors[name] for name in self.layout.names]
        self._gradient: torch.Tensor | None = None
        self._trained, self._buffers = self.layout.parted()

    def _bind(self, flat: torch.Tensor, extra: torch.Tensor | None = None) -> None:
        """Make `flat` (trained weights, then buffers unless they come as `extra`) the module's tensors."""
        views = self.layout.views(flat) if extra is None else self._trained.views(flat) | self._buffers.views(extra)
        for tensor, view in zip(self._tensors, views.values(), strict=True):
            # No copy: training moves the vector, and BatchNorm writes its statistics straight into `extra`.
            tensor.data = view

    def _call(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        return one_each(self.module(x), len(x))

    def together(self, x: torch.Tensor) -> bool:
        """See `Network.together`."""
        return False

    def forward(
        self, theta: torch.Tensor, extra: torch.Tensor, x: torch.Tensor, *masks: torch.Tensor
    ) -> tuple[torch.Tensor, Pullback]:
        """See `Network.forward`."""
        self._bind(theta[0], extra[0])
        train_mode(self.module, x.shape[1])
        with torch.enable_grad():
            logits = self._call(x[0])
        leaves = self._tensors[: self.layout.trainable_tensors]

        def pullback(slope: torch.Tensor) -> torch.Tensor:
            # Always the same memory: to get as much anew takes as long as to fill it.
            self._gradient = self._trained.joined(gradients(logits, slope[0], leaves), out=self._gradient)
            return self._gradient.unsqueeze(0)

        return logits.detach().unsqueeze(0), pullback

    def logits(self, flat: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """See `Network.logits`."""
        self.module.eval()
        found = []
        with torch.no_grad():
            for weights, inputs in zip(flat, x, strict=True):
                self._bind(weights)
                found.append(self._call(inputs))
        return torch.stack(found)
