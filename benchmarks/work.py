"""The work that every engine does: rows, clients, first weights and who takes part. Needs numpy alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

FEATURES = 100
HIDDEN = (32, 16)
BATCH = 64
LR = 0.05
MOMENTUM = 0.9
DROPOUT = 0.1


@dataclass(frozen=True)
class Case:
    """A federation: how many clients, how many of them in a round, and how uneven their sizes are."""

    name: str
    clients: int
    per_round: int
    exponent: float = 0.0
    """Sizes ∝ rank^(−exponent)."""
    rows: int = 48_842


CASES = (
    Case("(i) 4 clients", 4, 4),
    Case("(ii) 100 clients, 30 a round", 100, 30),
    Case("(iii) 1,000 clients, 100 a round", 1000, 100, exponent=0.8),
)


@dataclass(frozen=True, eq=False)
class Work:
    """Rows sorted by client: client k holds ``edges[k]:edges[k+1]``. Weights of the MLP, layer by layer."""

    x: np.ndarray
    y: np.ndarray
    edges: np.ndarray
    weights: tuple[np.ndarray, ...]
    participants: np.ndarray
    """Client numbers ``[rounds, per_round]``, as our own engine drew them; empty before it has."""

    def save(self, path: Path) -> None:
        """Write everything into one file."""
        numbered = {f"weight{i}": w for i, w in enumerate(self.weights)}
        np.savez(path, x=self.x, y=self.y, edges=self.edges, participants=self.participants, **numbered)

    @classmethod
    def load(cls, path: Path) -> Work:
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            weights = tuple(file[f"weight{i}"] for i in range(2 * (len(HIDDEN) + 1)))
            return cls(file["x"], file["y"], file["edges"], weights, file["participants"])

    def steps(self, number: int) -> int:
        """Optimiser steps that all clients of a round take together."""
        sizes = np.diff(self.edges)[self.participants[number]]
        return int((-(-sizes // BATCH)).sum())

    def loss(self, weights: tuple[np.ndarray, ...]) -> float:
        """Mean loss of a model over all rows."""
        hidden = self.x.astype(np.float64)
        for i in range(0, len(weights), 2):
            hidden = hidden @ weights[i].T.astype(np.float64) + weights[i + 1]
            if i + 2 < len(weights):
                hidden = np.maximum(hidden, 0)
        logits = hidden[:, 0]
        return float(np.mean(np.logaddexp(0, logits) - self.y * logits))


def make(case: Case, seed: int = 0) -> Work:
    """Draw the rows, deal them out and start a model."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((case.rows, FEATURES), dtype=np.float32)
    direction = rng.standard_normal(FEATURES) / FEATURES**0.5
    y = (x @ direction + 0.5 * rng.standard_normal(case.rows) > 0.5).astype(np.int64)
    shares = np.arange(1, case.clients + 1, dtype=float) ** -case.exponent
    edges = np.rint(np.cumsum(shares) / shares.sum() * (case.rows - case.clients)).astype(np.int64)
    edges = np.concatenate([[0], edges + np.arange(1, case.clients + 1)])
    sizes = [FEATURES, *HIDDEN, 1]
    weights: list[np.ndarray] = []
    for inputs, outputs in pairwise(sizes):
        bound = inputs**-0.5
        weights.append(rng.uniform(-bound, bound, (outputs, inputs)).astype(np.float32))
        weights.append(rng.uniform(-bound, bound, outputs).astype(np.float32))
    return Work(x, y, edges, tuple(weights), np.empty((0, case.per_round), dtype=np.int64))
