"""Whether a module treats every row by itself and works on its last axis alone.

Such a module may be given the rows of many clients at once, ``[clients, rows, features]``, as long as its linear layers
know each client's weights: no `vmap`, which takes every operation apart and costs more than a small model's arithmetic.
"""

from __future__ import annotations

import copy
import operator
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F  # noqa: N812 (torch's own name for it)

_ELEMENTWISE: set[Any] = {
    *(nn.Identity, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish),
    *(nn.Tanh, nn.Sigmoid, nn.Softplus, nn.Hardtanh, nn.Dropout, F.dropout),
    *(torch.relu, torch.tanh, torch.sigmoid, torch.exp, torch.add, torch.sub, torch.mul),
    *(F.relu, F.leaky_relu, F.elu, F.selu, F.gelu, F.silu, F.mish, F.tanh, F.sigmoid, F.softplus),
    *(operator.add, operator.sub, operator.mul, operator.neg),
    *("relu", "tanh", "sigmoid", "exp", "add", "sub", "mul"),
}


def rowwise(module: nn.Module) -> bool:
    """Say whether linear layers and elementwise operations are all there is, and perhaps the last axis dropped at last.

    >>> rowwise(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)))
    True
    >>> rowwise(nn.Sequential(nn.Linear(3, 4), nn.Softmax(1), nn.Linear(4, 1)))
    False
    """
    if any(part._forward_hooks or part._forward_pre_hooks for part in module.modules()):
        return False
    try:
        nodes = list(fx.symbolic_trace(copy.deepcopy(module).train()).graph.nodes)
    except Exception:  # whatever a forward does that cannot be followed
        return False
    layers = dict(module.named_modules())
    # An argument with a default would be followed as if it were given.
    one_input = sum(node.op == "placeholder" for node in nodes) == 1
    return one_input and all(_harmless(node, layers) for node in nodes)


def _harmless(node: fx.Node, layers: dict[str, nn.Module]) -> bool:
    if node.op in ("placeholder", "output"):
        return True
    if node.op == "call_module":
        kind: Any = type(layers[str(node.target)])
        return kind is nn.Linear or kind in _ELEMENTWISE
    if node.op in ("call_function", "call_method") and node.target in _ELEMENTWISE:
        return True
    # Behind it rows and features would be mistaken for one another.
    last = all(user.op == "output" for user in node.users)
    return last and (node.target, node.args[1:]) in (
        ("squeeze", (-1,)),
        (torch.squeeze, (-1,)),
        (operator.getitem, ((..., 0),)),
    )
