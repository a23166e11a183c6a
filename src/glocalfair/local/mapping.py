"""`torch.func.vmap` over clients' weights and rows, with less ado: its own checks cost as much as a small model.

This reaches for what lies beneath `vmap` in the versions of torch that this package allows; where that is missing,
`vmap` itself does it, and nothing changes but the time.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

try:
    from torch._C._functorch import (  # type: ignore[attr-defined]  # the stubs lack one
        _add_batch_dim,
        _remove_batch_dim,
        _set_vmap_fallback_warning_enabled,
        _vmap_decrement_nesting,
        _vmap_increment_nesting,
        get_unwrapped,
        is_batchedtensor,
        maybe_get_bdim,
        maybe_get_level,
    )

    FAST = True
except ImportError:  # another torch
    FAST = False

Values = dict[str, torch.Tensor]


def quiet() -> None:
    """Have `vmap` no longer tell of operations that it does client by client: the others make up for it."""
    if FAST:
        _set_vmap_fallback_warning_enabled(False)


def mapped(function: Callable[[Values, torch.Tensor], torch.Tensor], values: Values, x: torch.Tensor) -> torch.Tensor:
    """Call a function for each client: everything has a leading axis of clients, and so has the result."""
    clients = x.shape[0]
    level = _vmap_increment_nesting(clients, "error")
    try:
        inside = {name: _add_batch_dim(value, 0, level) for name, value in values.items()}
        found = function(inside, _add_batch_dim(x, 0, level))
        result: torch.Tensor = _remove_batch_dim(found, level, clients, 0)
        return result
    finally:
        _vmap_decrement_nesting()


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Do what `torch.nn.functional.linear` does, for one client, for all, or inside of `mapped`.

    `vmap` takes a linear layer apart into half a dozen operations; all clients' layers are one product.
    """
    if weight.dim() == 3 and bias is not None:
        return torch.baddbmm(bias.unsqueeze(1), x, weight.mT)
    if FAST and weight.dim() == 2 and not is_batchedtensor(x) and not is_batchedtensor(weight):
        return torch.nn.functional.linear(x, weight, bias)
    if FAST and bias is not None and x.dim() == 2 and _alike(x, weight, bias):
        product = linear(get_unwrapped(x), get_unwrapped(weight), get_unwrapped(bias))
        result: torch.Tensor = _add_batch_dim(product, 0, maybe_get_level(x))
        return result
    product = torch.matmul(x, weight.mT)
    return product if bias is None else product + bias


def _alike(*tensors: torch.Tensor) -> bool:
    """Whether all have the axis of clients, of the same `vmap`, in front."""
    return all(is_batchedtensor(t) and maybe_get_bdim(t) == 0 for t in tensors) and (
        len({maybe_get_level(t) for t in tensors}) == 1
    )
