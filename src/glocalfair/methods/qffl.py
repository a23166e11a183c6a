"""q-FFL by q-FedAvg (Li et al., 2020): clients with a high loss count more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from glocalfair.aggregation.average import normalise
from glocalfair.errors import invalid
from glocalfair.local.trainer import local_steps
from glocalfair.methods.losses import ReportsLoss
from glocalfair.methods.roster import column
from glocalfair.types import (
    ClientUpdate,
    Floats,
    Log,
    RoundContext,
    ServerState,
    TrainingSettings,
)

TINY = 1e-10
"""Keeps a loss of 0 out of F^(q−1)."""


@dataclass(frozen=True)
class QFFL(ReportsLoss):
    """Minimises Σ_k p_k/(q+1) · F_k^(q+1).

    With d_k = w^t − w̄_k (the client's whole local step), F_k the loss of the *received* model and p_k = n_k/Σn::

        w^{t+1} = w^t − Σ_k c_k d_k,   c_k = p_k F_k^q / Σ_j p_j F_j^q (1 + q L ‖d_j‖² / F_j)

    which is the published −ΣΔ/Σh divided by L, with p_k in both sums because clients are sampled uniformly here.
    The c_k sum to less than 1; the rest stays on w^t. q = 0 is FedAvg.

    Attributes
    ----------
    q
        Strength. The authors use up to 5 in runs of hundreds of rounds; with few rounds a large q hardly moves the
        model, so the default is small. The log has ``step_ratio`` = ‖w^{t+1} − w^t‖ / mean ‖d_k‖: watch it.
    L
        Smoothness. ``"paper"`` is 1/lr, right for one plain SGD step. ``"auto"`` is
        (1 − momentum) / (lr · local steps), for which L·d_k is the client's mean gradient. Or a number above 0.
    """

    name: ClassVar[str] = "qffl"
    summary: ClassVar[str] = "clients with a high loss count more (q-FedAvg)"
    citation: ClassVar[str] = "Li et al. 2020"

    q: float = 0.1
    L: float | Literal["auto", "paper"] = "auto"

    def __post_init__(self) -> None:
        if not 0 <= self.q < math.inf:
            raise invalid("q", "a number of at least 0", self.q)
        if self.L not in ("auto", "paper") and (isinstance(self.L, str) or not 0 < self.L < math.inf):
            raise invalid("L", "'auto', 'paper' or a number above 0", self.L)

    def coefficients(
        self, state: ServerState, updates: Sequence[ClientUpdate], context: RoundContext
    ) -> tuple[Floats, Log]:
        """Server: c_k as above, and how far the model moves beside its clients."""
        trained = slice(context.trainable)
        old = np.asarray(state.weights[trained], dtype=np.float64)
        norms = np.array([np.linalg.norm(old - update.weights[trained]) for update in updates])
        examples = np.array([update.examples for update in updates], dtype=np.float64)
        smoothness = np.array([self.smoothness(update.examples, context.training) for update in updates])
        share = self.shares(examples, column(updates, "loss"), norms, smoothness)
        step = np.zeros_like(old)
        for coefficient, update in zip(share, updates, strict=True):
            step += coefficient * (old - update.weights[trained])
        mean = float(norms.mean())
        return share, {"step_ratio": float(np.linalg.norm(step)) / mean if mean > 0 else 0.0}

    def shares(self, examples: Floats, losses: Floats, norms: Floats, smoothness: Floats) -> Floats:
        """Return c_k from n_k, F_k, ‖d_k‖ and L."""
        safe = losses + TINY
        # The ratio does not see a common factor; with the largest loss at 1 no power overflows.
        mass = normalise(examples) * (safe / safe.max()) ** self.q
        shares: Floats = mass / (mass * (1 + self.q * smoothness * norms**2 / safe)).sum()
        return shares

    def smoothness(self, examples: int, training: TrainingSettings) -> float:
        """Return L for a client with so many examples."""
        if self.L == "paper":
            return 1 / training.lr
        if self.L == "auto":
            # Momentum μ makes a step of lr/(1 − μ); Adam has no such factor.
            damping = 1 - training.momentum if training.optimizer == "sgd" else 1.0
            return damping / (training.lr * local_steps(examples, training))
        return float(self.L)
