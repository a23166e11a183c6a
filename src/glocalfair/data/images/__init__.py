"""Pictures: UTKFace, CelebA and the user's own, decoded once; and made-up faces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glocalfair.data.entry import DatasetEntry
from glocalfair.data.images import celeba, faces, folder, utkface
from glocalfair.data.images.listing import Listing

DATASETS = (celeba.DATASET, faces.DATASET, folder.DATASET, utkface.DATASET)
_SCANS: dict[str, Callable[..., Listing]] = {"celeba": celeba.scan, "folder": folder.scan, "utkface": utkface.scan}


def check_listing(entry: DatasetEntry, options: Any) -> list[str]:
    """Say what a set of pictures holds before any is decoded: counts by label and group, and what is left out."""
    import numpy as np

    listing = _SCANS[entry.name](options)
    rows, units = len(listing.label), listing.unit
    people = "" if units is None else f" of {len(np.unique(units)):,} people"
    lines = [f"{entry.name}: {rows:,} pictures{people}, {100 * listing.label.mean():.1f} % positive"]
    for a, attribute in enumerate(listing.attributes):
        told = []
        for code, value in enumerate(attribute.values):
            mine = listing.label[listing.groups[:, a] == code]
            told.append(f"{value} {len(mine):,}" + (f" ({100 * mine.mean():.1f} % positive)" if len(mine) else ""))
        lines.append(f"{attribute.name}: {', '.join(told)}")
    lines += [
        f"{len(names):,} left out: {why} ({'; '.join(names[:5])}{' …' if len(names) > 5 else ''})"
        for why, names in listing.left_out.items()
        if names
    ]
    return lines
