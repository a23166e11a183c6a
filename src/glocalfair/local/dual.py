"""The λ-player's moves, batched over clients: ``[clients, constraints]`` in, the same out.

Lagrangian: λ ← Π(λ + η g). Proxy-Lagrangian with swap regret (Theorem 1): the state is a matrix M whose columns are
distributions over *objective and constraints*; λ is its stationary vector.
"""

from __future__ import annotations

from typing import Literal

import torch

FLOOR = 1e-3
"""R of the multiplicative update: no entry of M falls below R/(m+1), so no constraint is ever forgotten."""


def project_simplex(values: torch.Tensor, total: float = 1.0) -> torch.Tensor:
    """Project the last axis on {v ≥ 0, Σv = total} (Euclidean)."""
    ordered, _ = values.sort(dim=-1, descending=True)
    excess = ordered.cumsum(-1) - total
    rank = torch.arange(1, values.shape[-1] + 1, dtype=values.dtype)
    keep = (ordered * rank > excess).sum(-1, keepdim=True)
    shift = excess.gather(-1, keep - 1) / keep
    return (values - shift).clamp(min=0)


def ascend(multiplier: torch.Tensor, violation: torch.Tensor, lr: float, radius: float | None) -> torch.Tensor:
    """Take one projected ascent step of the Lagrangian; Π_Λ is {λ ≥ 0} or, with a radius, also Σλ ≤ R."""
    moved = torch.add(multiplier, violation, alpha=lr).clamp_(min=0)
    if radius is None or moved.shape[-1] == 0:
        return moved
    outside = moved.sum(-1, keepdim=True) > radius
    return torch.where(outside, project_simplex(moved, radius), moved)


def initial_matrix(clients: int, constraints: int, additive: bool, dtype: torch.dtype) -> torch.Tensor:
    """Start with nearly all weight on the objective (all of it for the additive update)."""
    size = constraints + 1
    floor = 0.0 if additive else FLOOR
    matrix = torch.full((clients, size, size), floor / size, dtype=dtype)
    matrix[:, 0] = 1 - floor * constraints / size
    return matrix


def stationary(matrix: torch.Tensor) -> torch.Tensor:
    """Return λ with Mλ = λ by the power method: 128 iterations, done as seven squarings."""
    power = matrix
    for _ in range(7):
        power = power @ power
        power = power / power.sum(-2, keepdim=True)
    vector = power.mean(-1).abs()
    return vector / vector.sum(-1, keepdim=True)


def swap_step(
    matrix: torch.Tensor,
    multiplier: torch.Tensor,
    violation: torch.Tensor,
    lr: float,
    update: Literal["multiplicative", "additive"],
) -> torch.Tensor:
    """Move M along δλᵀ with δ = (0, g): each column learns against the share of play that it advised."""
    payoff = torch.cat([torch.zeros_like(violation[:, :1]), violation], 1)
    gradient = payoff.unsqueeze(2) * multiplier.unsqueeze(1)
    if update == "additive":
        return project_simplex((matrix + lr * gradient).mT).mT
    log = matrix.log() + lr * gradient
    log = log - log.logsumexp(1, keepdim=True)
    return log.exp().clamp(min=FLOOR / matrix.shape[1])
