"""What `tune` tries for each method: settings of its strength, from its authors' grids where they gave one.

A method that is not listed is tried with its defaults alone. Ditto is not listed because its shared model is
FedAvg's whatever its strength is, so pooled validation rows cannot tell one strength from another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

GRIDS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "afl": {"eta": (0.001, 0.01, 0.1, 1.0)},
    "fairfed": {"beta": (0.02, 0.2, 1.0, 5.0, 50.0), "local_debias": ("reweighing", "none")},
    "fedfb": {"alpha": (0.001, 0.05, 0.1, 0.5, 2.0), "step": ("decay", "normalised")},
    "fedminmax": {"eta": (0.01, 0.05, 0.1, 0.5, 1.0)},
    "fedprox": {"mu": (0.001, 0.01, 0.1, 1.0)},
    "gifair": {"c": (0.1, 0.3, 0.5, 0.7, 0.9)},
    "glocalfair": {"dual_lr": (1.0, 2.0, 4.0, 6.0)},
    "glocalfair-paper": {"game_lr": (0.01, 0.05, 0.2)},
    "qffl": {"q": (0.001, 0.01, 0.1, 1.0, 2.0, 5.0, 10.0)},
}


def points(method: str) -> Iterator[dict[str, Any]]:
    """Give all combinations of a method's grid; one empty combination for a method without a grid.

    >>> list(points("afl"))[:2], list(points("fedavg"))
    ([{'eta': 0.001}, {'eta': 0.01}], [{}])
    """
    grid = GRIDS.get(method, {})
    for values in product(*grid.values()):
        yield dict(zip(grid, values, strict=True))
