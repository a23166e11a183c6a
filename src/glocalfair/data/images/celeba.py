"""CelebA: is a celebrity smiling? 202,599 faces of 10,177 people with 40 attributes.

The official layout: a folder ``img_align_celeba`` with the pictures, ``list_attr_celeba.txt`` and
``identity_CelebA.txt``, anywhere below the root. People are never torn apart: nobody is in the training part and in a
test set, or with two clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from glocalfair.data.entry import DatasetEntry
from glocalfair.data.images import listing as pictures
from glocalfair.data.images.cache import Cache, OnProgress
from glocalfair.data.images.listing import Listing, PictureOptions
from glocalfair.data.images.sources import Compact, Files, Source, compact_file
from glocalfair.errors import GlocalfairError, invalid, unknown
from glocalfair.types import Attribute, Dataset, Ints

GET = (
    "CelebA: https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html (Align&Cropped Images, attributes, identities on "
    "request), for non-commercial research only, no redistribution. The folder needs img_align_celeba/, "
    "list_attr_celeba.txt and identity_CelebA.txt."
)
# The paper's names of the sensitive attributes: CelebA's column, and the names of its 0 and 1.
KNOWN = {"gender": ("Male", ("female", "male")), "age": ("Young", ("adult", "young"))}


@dataclass(frozen=True)
class CelebAOptions(PictureOptions):
    """Options of the data set `celeba`; see `PictureOptions` for `root`, `side`, `cache` and `max_corrupt`.

    Attributes
    ----------
    label
        The attribute to predict.
    sensitive
        Sensitive attributes: ``"gender"``, ``"age"``, or any of the 40 by its name.
    silos
        Natural clients, for the partition `by_column`: people are dealt out to so many.
    """

    label: str = "Smiling"
    sensitive: tuple[str, ...] = ("gender", "age")
    silos: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.silos < 1:
            raise invalid("data.silos", "a whole number of at least 1", self.silos)


class _Table(NamedTuple):
    """Attributes and people of the pictures in a source."""

    source: Source
    names: tuple[str, ...]
    attributes: Ints
    person: Ints
    missing: tuple[str, ...] = ()


def scan(options: CelebAOptions) -> Listing:
    """List the pictures: the official layout if it is there, else the compact file."""
    root = pictures.find_root(options, "celeba", GET)
    table = _official(root) or _compact(root)

    def column(name: str) -> Ints:
        if name not in table.names:
            raise unknown("attribute of data 'celeba'", name, [*KNOWN, *table.names])
        return table.attributes[:, table.names.index(name)]

    attributes, codes = [], []
    for name in options.sensitive:
        where, values = KNOWN.get(name, (name, ("no", "yes")))
        attributes.append(Attribute(name, values))
        codes.append(column(where))
    owner, owner_names = pictures.silos(table.person, options.silos)
    return Listing(
        name="celeba",
        source=table.source,
        label=column(options.label),
        groups=np.stack(codes, axis=1) if codes else np.empty((len(table.person), 0), dtype=np.int64),
        attributes=tuple(attributes),
        unit=table.person,
        owner=owner,
        owner_names=owner_names,
        left_out={"listed, but not in img_align_celeba or without a person": table.missing},
    )


def _official(root: Path) -> _Table | None:
    folder = next((p for p in sorted(root.rglob("img_align_celeba")) if any(p.glob("*.jpg"))), None)
    if folder is None:
        return None
    attributes, people = (_below(root, name) for name in ("list_attr_celeba.txt", "identity_CelebA.txt"))
    lines = attributes.read_text(encoding="utf-8").splitlines()
    if len(lines) < 2:
        raise GlocalfairError(f"'{attributes}' must begin with the number of pictures and the names of the attributes.")
    names = tuple(lines[1].split())
    person = dict(line.split()[:2] for line in people.read_text(encoding="utf-8").splitlines() if line.strip())
    present = {path.name for path in folder.iterdir()}
    kept, values, missing = [], [], []
    for number, line in enumerate(lines[2:], 3):
        name, *cells = line.split() or [""]
        if not name:
            continue
        if len(cells) != len(names) or not set(cells) <= {"1", "-1"}:
            raise GlocalfairError(f"'{attributes}', line {number}: a name and {len(names)} values of 1 or -1 expected.")
        if name in present and person.get(name, "").isdigit():
            kept.append(name)
            values.append([cell == "1" for cell in cells])
        else:
            missing.append(name)
    if not kept:
        raise GlocalfairError(f"No picture in '{folder}' is listed in '{attributes}' and '{people}'.")
    codes = np.array(values, dtype=np.int64)
    return _Table(Files(folder, kept), names, codes, np.array([int(person[n]) for n in kept]), tuple(missing))


def _below(root: Path, name: str) -> Path:
    found = next(iter(sorted(root.rglob(name))), None)
    if found is None:
        raise GlocalfairError(f"'{root}' holds pictures, but no {name}. {GET}")
    return found


def _compact(root: Path) -> _Table:
    path = compact_file(root)
    if path is None:
        raise GlocalfairError(f"'{root}' holds neither img_align_celeba nor a compact *_jpeg.npz file. {GET}")
    compact = Compact.open(path, ("attr", "attr_names", "identity"))
    names = tuple(str(name) for name in compact.arrays["attr_names"])
    return _Table(compact, names, compact.arrays["attr"].astype(np.int64), compact.arrays["identity"].astype(np.int64))


def prepare(options: CelebAOptions, on_progress: OnProgress | None = None) -> tuple[Listing, Cache]:
    """List the pictures and decode them, if that has not been done yet."""
    listing = scan(options)
    return listing, pictures.prepare(listing, options, on_progress)


def load(options: CelebAOptions) -> Dataset:
    """Load CelebA."""
    return pictures.dataset(*prepare(options))


DATASET = DatasetEntry(
    name="celeba",
    description="faces of celebrities: smiling? Sensitive: gender, age (your own copy; see 'glocalfair data')",
    options=CelebAOptions,
    load=load,
    licence="non-commercial research only, no redistribution; never shipped",
    prepare=prepare,
    get=GET,
)
