"""The section ``[privacy]`` of an experiment."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from glocalfair.errors import invalid


@dataclass(frozen=True)
class PrivacyConfig:
    """How each client hides its own part in what it sends; off unless `clip` is given.

    Attributes
    ----------
    clip
        C: the longest update (trained minus received weights, L2) that a client sends; longer ones are scaled down.
        None for no privacy at all.
    noise_multiplier
        z: every client adds Gaussian noise of standard deviation z·C to each weight. 0 for clipping alone.
    delta
        δ of the guarantee; far below one over the number of clients.
    observer
        Against whom ε is counted. ``"server"``: it sees each update and who sent it. ``"outsider"``: somebody who
        sees the global models only and does not know who took part, so that sampling helps.
    uncovered
        What to do with a method that sends more than weights and number of examples, which the noise does not
        cover: ``"refuse"`` or ``"send"`` it as it is.
    """

    clip: float | None = None
    noise_multiplier: float = 0.0
    delta: float = 1e-5
    observer: Literal["server", "outsider"] = "server"
    uncovered: Literal["refuse", "send"] = "refuse"

    def __post_init__(self) -> None:
        if self.clip is not None and not self.clip > 0:
            raise invalid("privacy.clip", "above 0", self.clip, "Leave it out for no privacy.")
        if not 0 <= self.noise_multiplier < math.inf:
            raise invalid("privacy.noise_multiplier", "a number of at least 0", self.noise_multiplier)
        if self.noisy and (self.clip is None or math.isinf(self.clip)):
            advice = "Noise hides an update of bounded length only: set it to a usual length of an update."
            raise invalid("privacy.clip", "a number above 0 when there is noise", self.clip, advice)
        if not 0 < self.delta < 1:
            raise invalid("privacy.delta", "above 0 and below 1", self.delta)

    @property
    def on(self) -> bool:
        """Whether updates are changed at all."""
        return self.clip is not None

    @property
    def noisy(self) -> bool:
        """Whether there is noise, and so a guarantee."""
        return self.noise_multiplier > 0
