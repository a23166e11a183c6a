"""Whether clients may share the steps of a module that nobody knows: it is tried with two of them.

What counts is what the trainer needs: with other clients and padding beside it, a client must get the logits and the
gradient that it gets by itself. That finds out modules that mix rows, operations that `torch.func.vmap` does not take
or takes wrongly, and randomness other than dropout. A module must also be left as it was: with a memory of its own
(BatchNorm's statistics, a counter) clients would share what each should have for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import nn

from glocalfair.local.dropout import Drop, Dropping, drawn
from glocalfair.local.mapping import quiet
from glocalfair.local.rowwise import rowwise

if TYPE_CHECKING:
    from glocalfair.local.network import ModuleNetwork

_ROWS, _REAL = 13, 10
"""So many rows, the last ones padding: hardly ever as many as a module has of anything else."""


class Found(NamedTuple):
    """How many clients at once are run."""

    drops: list[Drop]
    rowwise: bool
    kept: int
    """Numbers that a step keeps of each row until it has a gradient."""


def tried(network: ModuleNetwork, x: torch.Tensor) -> Found | None:
    """Try a network, which must not be used any more, on some rows; None if clients have to be trained one by one."""
    quiet()
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            return _Trial(network, x).result()
    except Exception:  # whatever a forward does that cannot be done for many
        return None


class _Trial:
    def __init__(self, network: ModuleNetwork, x: torch.Tensor) -> None:
        self.network, size = network, network.layout.trainable
        self.x = x[torch.arange(2 * _ROWS) % len(x)].unflatten(0, (2, _ROWS))
        random = torch.Generator().manual_seed(0)
        flat = network.layout.flatten(network.module).to(x)
        # A weight of 0 would hide what lies behind it.
        self.theta = flat[:size] + 0.1 * torch.randn(2, size, generator=random).to(x)
        self.extra = flat[size:].expand(2, -1)
        self.slope = torch.randn(2, _ROWS, generator=random).to(x)
        self.slope[:, _REAL:] = 0
        self.masks: list[torch.Tensor] = []

    def result(self) -> Found | None:
        module = self.network.own_module
        before = _memory(module)
        (drops, most), (same, least) = self._watched(_ROWS), self._watched(_REAL)
        rngs = [np.random.default_rng(k) for k in range(2)]
        self.network.drops = drops
        self.masks = [mask.to(self.x) for mask in drawn(drops, rngs, [[(0, _REAL)], [(1, _REAL)]], 2, _ROWS)]
        alone = [self._step(slice(k, k + 1), _REAL) for k in range(2)]
        expected = [torch.cat(parts) for parts in zip(*alone, strict=True)]

        def agrees(shortcut: bool) -> bool:
            self.network.rowwise = shortcut
            try:
                return all(map(_close, self._step(slice(None), _ROWS), expected))
            except RuntimeError:
                return False

        shortcut = self.x.dim() == 3 and rowwise(self.network.module) and agrees(True)
        if drops != same or not (shortcut or agrees(False)) or _changed(before, _memory(module)):
            return None
        return Found(drops, shortcut, (most - least) // (_ROWS - _REAL))

    def _step(self, who: slice, rows: int) -> list[torch.Tensor]:
        """Return logits in evaluation, logits in training and the gradient."""
        theta, extra, x = (part[who].clone() for part in (self.theta, self.extra, self.x[:, :rows]))
        evaluated = self.network.logits(torch.cat([theta, extra], 1), x.clone())
        logits, pullback = self.network.forward(theta, extra, x, *(mask[who, :rows] for mask in self.masks))
        gradient = pullback(self.slope[who, :rows])
        if not torch.equal(extra, self.extra[who]):
            raise ValueError("writes into its buffers")
        return [evaluated[:, :_REAL], logits[:, :_REAL], gradient.clone()]

    def _watched(self, rows: int) -> tuple[list[Drop], int]:
        """Run a step of one client; return what it would drop, and how many numbers it keeps."""
        drops: list[Drop] = []
        kept: list[int] = []

        def noted(input: torch.Tensor, p: float) -> None:
            if len(input) != rows:
                raise ValueError("drops something else than parts of rows")
            drops.append(Drop(tuple(input.shape[1:]), p))

        def counted(tensor: torch.Tensor) -> torch.Tensor:
            kept.append(tensor.numel())
            return tensor

        with Dropping(noted), torch.autograd.graph.saved_tensors_hooks(counted, lambda tensor: tensor):
            self.network.forward(self.theta[:1], self.extra[:1].clone(), self.x[:1, :rows].clone())
        return drops, sum(kept)


def _close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two results differ by rounding alone."""
    size = float(expected.abs().nan_to_num().max()) if expected.numel() else 0.0
    return torch.allclose(found, expected, 1e-3, 1e-4 * size, equal_nan=True)


def _memory(module: nn.Module) -> dict[tuple[str, str], tuple[Any, Any]]:
    """Return what a module might remember a call by: plain attributes, and buffers that are no weights."""
    found = {}
    for name, part in module.named_modules():
        whole = {key: b for key, b in part._buffers.items() if b is not None and not b.is_floating_point()}
        own = {k: v for k, v in vars(part).items() if k not in ("training", "_parameters", "_buffers")}
        for key, value in (own | whole).items():
            mark = value._version if isinstance(value, torch.Tensor) else len(value) if hasattr(value, "__len__") else 0
            found[name, key] = value, mark
    return found


def _changed(before: dict[tuple[str, str], tuple[Any, Any]], after: dict[tuple[str, str], tuple[Any, Any]]) -> bool:
    simple = (bool, int, float, str)

    def same(old: tuple[Any, Any], new: tuple[Any, Any]) -> bool:
        equal = old[0] is new[0] or (isinstance(old[0], simple) and isinstance(new[0], simple) and old[0] == new[0])
        return equal and bool(old[1] == new[1])

    return before.keys() != after.keys() or not all(same(before[key], after[key]) for key in before)
