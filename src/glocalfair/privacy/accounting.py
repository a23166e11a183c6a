"""What the noise adds up to: ε over rounds, by the Rényi accountant of Opacus."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

from glocalfair.errors import GlocalfairError
from glocalfair.privacy.settings import PrivacyConfig

ORDERS = (*(1 + x / 100 for x in range(1, 100)), *(1 + x / 10 for x in range(10, 110)), *range(12, 64), 128, 256, 512)
"""Rényi orders; those below 2 are for little noise and many rounds."""
SAMPLED = (1.25, 1.5, 1.75, *range(2, 64), 128, 256, 512)
"""Rényi orders for a secret sample, where an order that is not whole takes long."""


def epsilon(noise_multiplier: float, delta: float, releases: int, rate: float = 1.0) -> float:
    """Return ε of so many noisy updates of one client, an upper bound.

    Two worlds are compared: in one the client sends its clipped update and noise, in the other the noise alone.

    Parameters
    ----------
    noise_multiplier
        z: standard deviation of the noise over the bound of the update.
    delta
        δ.
    releases
        In how many rounds the client took part, or could have (with a `rate`).
    rate
        Chance to take part in a round, if who took part is a secret (sampling is treated as Poisson's); else 1.

    Examples
    --------
    >>> round(epsilon(5.0, 1e-5, 1), 2) < round(epsilon(5.0, 1e-5, 30), 2) < round(epsilon(2.0, 1e-5, 30), 2)
    True
    >>> epsilon(0.0, 1e-5, 1), epsilon(1.0, 1e-5, 0)
    (inf, 0.0)
    """
    if releases == 0:
        return 0.0
    if noise_multiplier == 0:
        return math.inf
    once = _renyi(noise_multiplier, rate)
    with warnings.catch_warnings():
        # "Optimal order is the largest alpha": the bound holds nevertheless, it could only be smaller.
        warnings.simplefilter("ignore", UserWarning)
        spent, _ = _opacus().get_privacy_spent(orders=_orders(rate), rdp=[releases * r for r in once], delta=delta)
    return max(0.0, float(spent))


@cache
def _renyi(noise_multiplier: float, rate: float) -> tuple[float, ...]:
    """Return the Rényi divergence of one release at each order; it adds up over releases."""
    found = _opacus().compute_rdp(q=rate, noise_multiplier=noise_multiplier, steps=1, orders=_orders(rate))
    return tuple(float(value) for value in found)


def _orders(rate: float) -> tuple[float, ...]:
    return ORDERS if rate == 1 else SAMPLED


def _opacus() -> Any:
    """Import the accountant, which nobody needs without noise."""
    try:
        from opacus.accountants.analysis import rdp  # type: ignore[import-untyped]
    except ImportError as error:
        raise GlocalfairError(
            "'privacy.noise_multiplier' needs Opacus for its accounting: pip install 'glocalfair[dp]'."
        ) from error
    return rdp


def spent(settings: PrivacyConfig, schedule: Sequence[Sequence[str]], clients: int) -> float:
    """Return ε of a run so far, for the client that gave most.

    Parameters
    ----------
    settings
        The run's ``[privacy]``.
    schedule
        Who was asked to train, for each round so far: an update that got lost may still have been seen.
    clients
        How many clients there are.

    Examples
    --------
    >>> spent(PrivacyConfig(clip=1.0), [("a", "b"), ("b", "c")], 3)
    inf
    """
    if settings.observer == "outsider" and schedule:
        return epsilon(settings.noise_multiplier, settings.delta, len(schedule), len(schedule[0]) / clients)
    asked = Counter(name for names in schedule for name in names)
    return epsilon(settings.noise_multiplier, settings.delta, max(asked.values(), default=0))
