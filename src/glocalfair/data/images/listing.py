"""From a listing of pictures with labels to a `Dataset`, the same for every set of pictures."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from glocalfair.data.images.cache import Cache, OnProgress, default_folder, open_or_decode
from glocalfair.data.images.sources import Source
from glocalfair.errors import GlocalfairError, invalid
from glocalfair.rng import generator
from glocalfair.types import Attribute, Dataset, Ints

LEAST_SIDE = 32


@dataclass(frozen=True)
class PictureOptions:
    """Options of every set of pictures.

    Attributes
    ----------
    root
        The folder of the data; left out: the folder of this name in ``$GLOCALFAIR_DATA``.
    side
        Width and height in pixels; 128 in the paper.
    cache
        Where decoded pictures are kept; left out: ``$GLOCALFAIR_CACHE``, or glocalfair in your cache folder.
    max_corrupt
        The share of pictures that may be unreadable; they are listed and left out.
    """

    root: str = ""
    side: int = 128
    cache: str = ""
    max_corrupt: float = 0.01

    def __post_init__(self) -> None:
        if self.side < LEAST_SIDE:
            raise invalid("data.side", f"a whole number of at least {LEAST_SIDE}", self.side)
        if not 0 <= self.max_corrupt <= 1:
            raise invalid("data.max_corrupt", "a share from 0 to 1", self.max_corrupt)


@dataclass(frozen=True, eq=False)
class Listing:
    """What is known about a set of pictures before any is decoded; arrays have a row for each picture.

    `unit` numbers what must not be torn apart (a person); `left_out` says what was not listed, and why.
    """

    name: str
    source: Source
    label: Ints
    groups: Ints
    attributes: tuple[Attribute, ...]
    unit: Ints | None = None
    owner: Ints | None = None
    owner_names: tuple[str, ...] = ()
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def find_root(options: PictureOptions, name: str, instructions: str) -> Path:
    """Return the folder of a set of pictures, or say where to get it."""
    given = options.root or (os.environ.get("GLOCALFAIR_DATA") and str(Path(os.environ["GLOCALFAIR_DATA"]) / name))
    if not given:
        raise GlocalfairError(
            f"Where are the pictures of '{name}'? Give 'data.root', or set GLOCALFAIR_DATA to the folder that holds "
            f"'{name}'. {instructions}"
        )
    root = Path(given).expanduser()
    if not root.is_dir():
        raise GlocalfairError(f"'{root}' is not a folder. {instructions}")
    return root


def prepare(listing: Listing, options: PictureOptions, on_progress: OnProgress | None = None) -> Cache:
    """Open the cache of a listing, or make it."""
    folder = Path(options.cache).expanduser() if options.cache else default_folder()
    return open_or_decode(listing.source, options.side, folder, listing.name, options.max_corrupt, on_progress)


def dataset(listing: Listing, cache: Cache) -> Dataset:
    """Put pictures and labels together."""
    kept, rows = cache.kept, len(cache.kept)
    return Dataset(
        name=listing.name,
        numeric=np.empty((rows, 0), dtype=np.float32),
        numeric_names=(),
        categorical=np.empty((rows, 0), dtype=np.int64),
        categories=(),
        label=listing.label[kept],
        groups=listing.groups[kept],
        attributes=listing.attributes,
        owner=None if listing.owner is None else listing.owner[kept],
        owner_names=listing.owner_names,
        images=cache.images,
        unit=None if listing.unit is None else listing.unit[kept],
        about={"pictures": summary(listing, cache)},
    )


def summary(listing: Listing, cache: Cache) -> dict[str, Any]:
    """Say in plain values what is in a cache and what is not."""
    side = int(cache.images.shape[-1])
    copies = cache.problems.duplicates
    contradicting = sum(
        bool(listing.label[a] != listing.label[b] or (listing.groups[a] != listing.groups[b]).any()) for a, b in copies
    )
    return {
        "pictures": len(cache.kept),
        "side": side,
        "bytes": cache.size,
        "cache": str(cache.path),
        "fresh": cache.fresh,
        "duplicates": len(copies),
        "duplicates_with_other_labels": contradicting,
        "corrupt": list(cache.problems.corrupt),
        "left_out": {why: list(names) for why, names in listing.left_out.items()},
    }


def notices(told: Mapping[str, Any]) -> list[str]:
    """Write what a user should know about the pictures that were not used.

    >>> notices({"duplicates": 2, "duplicates_with_other_labels": 1, "corrupt": [], "left_out": {"bad names": ["x"]}})
    ['2 pictures left out: byte copies of others (1 with other labels)', '1 picture left out: bad names (x)']
    """
    lines = []
    if told["duplicates"]:
        other = told["duplicates_with_other_labels"]
        lines.append(f"{_pictures(told['duplicates'])} left out: byte copies of others ({other} with other labels)")
    for why, names in {"unreadable": told["corrupt"], **told["left_out"]}.items():
        if names:
            more = f"; and {len(names) - 3} more" if len(names) > 3 else ""
            lines.append(f"{_pictures(len(names))} left out: {why} ({'; '.join(names[:3])}{more})")
    return lines


def _pictures(count: int) -> str:
    return f"{count:,} picture{'' if count == 1 else 's'}"


def silos(unit: Ints, count: int) -> tuple[Ints, tuple[str, ...]]:
    """Deal units (people) out to so many owners, the same way each time.

    >>> owner, names = silos(np.array([7, 7, 3, 9]), 2)
    >>> bool(owner[0] == owner[1]), names
    (True, ('silo-00', 'silo-01'))
    """
    people, of_row = np.unique(unit, return_inverse=True)
    dealt = np.empty(len(people), dtype=np.int64)
    dealt[generator(0, "silos").permutation(len(people))] = np.arange(len(people)) % count
    width = max(2, len(str(count - 1)))
    return dealt[of_row], tuple(f"silo-{i:0{width}d}" for i in range(count))
