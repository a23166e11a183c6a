"""What a run needs to go on: plain data, so that it can be saved and loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from glocalfair.types import ClientState, Floats, ServerState


@dataclass(frozen=True, eq=False)
class SimulationState:
    """Everything that a run needs to go on after `round`."""

    round: int
    server: ServerState
    clients: Mapping[str, ClientState] = field(default_factory=dict)
    tail: Floats | None = None
    """Float64 sum of the last global models, for `average_last`."""
    best: Floats | None = None
    best_loss: float = float("inf")
    patience: int = 0
    """Evaluations since the best one, for early stopping."""
    diverged: str = ""
    """What showed that the training of this round diverged; everything else is then of the round before."""
