"""Named regions of a picture, and the share of heat in them: "it looks at the chin" as a number with an interval.

A region is a box (left, top, right, bottom) in shares of the side. Where boxes overlap the first one counts; what is
in none is ``elsewhere``. The boxes of faces fit aligned pictures only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from glocalfair.errors import GlocalfairError, invalid
from glocalfair.types import Attribute, Floats, Ints

Box = tuple[float, float, float, float]
Regions = Mapping[str, Box]
ELSEWHERE = "elsewhere"

REGIONS: Mapping[str, Regions] = {
    # Read off the mean picture of each set.
    "utkface": {
        "eyes": (0.15, 0.2, 0.85, 0.36),
        "nose": (0.35, 0.36, 0.65, 0.6),
        "mouth": (0.27, 0.6, 0.73, 0.78),
        "chin": (0.25, 0.78, 0.75, 0.97),
        "hair and forehead": (0.0, 0.0, 1.0, 0.2),
    },
    "celeba": {
        "eyes": (0.28, 0.43, 0.72, 0.56),
        "nose": (0.4, 0.56, 0.6, 0.68),
        "mouth": (0.33, 0.68, 0.67, 0.79),
        "chin": (0.33, 0.79, 0.67, 0.92),
        "hair and forehead": (0.15, 0.0, 0.85, 0.43),
    },
    "faces": {
        "eyes": (0.32, 0.4, 0.68, 0.52),
        "mouth": (0.34, 0.58, 0.66, 0.82),
        "chin": (0.34, 0.82, 0.66, 0.95),
        "hair": (0.08, 0.0, 0.92, 0.4),
    },
}
GRID: Regions = {
    f"{row} {column}": (x / 3, y / 3, (x + 1) / 3, (y + 1) / 3)
    for y, row in enumerate(("top", "middle", "bottom"))
    for x, column in enumerate(("left", "centre", "right"))
}
"""Nine fields, for pictures whose parts nobody has named."""


def regions_for(data: str) -> Regions:
    """Return the regions of a set of pictures; the grid of nine where there are none of its own."""
    return REGIONS.get(data, GRID)


def masks(regions: Regions, side: int) -> dict[str, Floats]:
    """Return each region as the share of every pixel that lies in it; they add up to 1 everywhere.

    >>> found = masks({"left": (0, 0, 0.5, 1)}, 4)
    >>> {name: float(mask.sum()) for name, mask in found.items()}
    {'left': 8.0, 'elsewhere': 8.0}
    """
    for name, box in regions.items():
        left, top, right, bottom = box
        if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
            raise invalid(f"region '{name}'", "left < right and top < bottom, from 0 to 1", list(box))
    free = np.ones((side, side))
    found: dict[str, Floats] = {}
    for name, (left, top, right, bottom) in regions.items():
        mask = np.outer(_covered(top, bottom, side), _covered(left, right, side))
        found[name] = np.minimum(mask, free)
        free = free - found[name]
    found[ELSEWHERE] = free
    return found


def _covered(low: float, high: float, side: int) -> Floats:
    """Return how much of each of `side` pixels lies between two places."""
    edges = np.arange(side + 1) / side
    inside = np.clip(np.minimum(edges[1:], high) - np.maximum(edges[:-1], low), 0, None) * side
    return np.asarray(inside)


def heat_shares(heat: Floats, regions: Regions) -> tuple[tuple[str, ...], Floats]:
    """Return the regions' names and each picture's share of heat in them ``[rows, regions]``.

    A picture without any heat has no shares: NaN.
    """
    found = masks(regions, heat.shape[-1])
    inside = np.stack([(heat * mask).sum((1, 2)) for mask in found.values()], axis=1)
    total = heat.sum((1, 2), dtype=np.float64)[:, None]
    return tuple(found), np.divide(inside, total, out=np.full(inside.shape, np.nan), where=total > 0)


def compare_groups(shares: Floats, groups: Ints, attribute: Attribute) -> list[dict[str, Any]]:
    """Return for each region the mean share of the two groups that differ most, and their difference.

    The interval (95 %) is Welch's: each group has its own variance. Groups of fewer than two pictures with heat are
    left out; with fewer than two groups there is no difference.

    Returns
    -------
    For each region: ``groups`` (names), ``means``, ``counts``, ``difference`` (the first minus the second) and
    ``interval``; None where it is undefined
    """
    if shares.ndim != 2 or len(shares) != len(groups):
        raise GlocalfairError("'shares' needs a row for each picture, as 'groups' has.")
    defined = ~np.isnan(shares).any(axis=1)
    members = [(value, shares[defined & (groups == code)]) for code, value in enumerate(attribute.values)]
    members = [(value, part) for value, part in members if len(part) > 1]
    return [_difference([(value, part[:, region]) for value, part in members]) for region in range(shares.shape[1])]


def _difference(members: list[tuple[str, Floats]]) -> dict[str, Any]:
    if len(members) < 2:
        return {"groups": [value for value, _ in members], "difference": None, "interval": None}
    ordered = sorted(members, key=lambda each: -float(each[1].mean()))
    # With two groups the first value of the attribute comes first; with more, the highest and the lowest.
    (a, first), (b, second) = members if len(members) == 2 else (ordered[0], ordered[-1])
    gap = float(first.mean() - second.mean())
    error = float(np.sqrt(first.var(ddof=1) / len(first) + second.var(ddof=1) / len(second)))
    return {
        "groups": [a, b],
        "means": [float(first.mean()), float(second.mean())],
        "counts": [len(first), len(second)],
        "difference": gap,
        "interval": [gap - 1.96 * error, gap + 1.96 * error],
    }
