"""FedAvg (McMahan et al., 2017): local training, then the mean weighted by the number of examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from glocalfair.methods.base import Method


@dataclass(frozen=True)
class FedAvg(Method):
    """θ^{t+1} = Σ_k (n_k / Σn) θ_k. No fairness of any kind: the yardstick for all others."""

    name: ClassVar[str] = "fedavg"
    summary: ClassVar[str] = "plain average by number of examples; no fairness"
    citation: ClassVar[str] = "McMahan et al. 2017"
