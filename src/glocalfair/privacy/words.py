"""The guarantee of a run in words, for tables and cards."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

OBSERVERS = {
    "server": "the server, who sees each update",
    "outsider": "an outsider, who sees the models and does not know who took part",
}


def guarantee(privacy: Mapping[str, Any]) -> Iterator[str]:
    """Give the sentences about ``result["privacy"]``, as it is in memory or as read from a file.

    >>> told = {"clip": 1.0, "noise_multiplier": 2.0, "delta": 1e-5, "epsilon": 3.2109, "observer": "server"}
    >>> next(guarantee(told))
    'ε = 3.21 at δ = 1e-05 for each client against the server, who sees each update (clip 1, noise multiplier 2)'
    """
    epsilon = privacy["epsilon"]
    clip = math.inf if privacy["clip"] is None else privacy["clip"]
    if epsilon is None or math.isinf(epsilon):
        yield f"Updates are clipped to length {clip:g} with no noise, so no guarantee"
        return
    yield (
        f"ε = {epsilon:.2f} at δ = {privacy['delta']:g} for each client against {OBSERVERS[privacy['observer']]} "
        f"(clip {clip:g}, noise multiplier {privacy['noise_multiplier']:g})"
    )
    yield "Not covered: the number of examples, and whatever is measured on clients' rows after training"
    yield from (f"Not covered: {text}" for text in privacy.get("without_noise", ()))
