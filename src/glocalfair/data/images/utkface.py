"""UTKFace: is a person 40 or older? 23,708 faces from the web; names of files carry age, gender and race.

Files are named ``age_gender_race_date.jpg`` (or ``….jpg.chip.jpg``) with gender 0 = male, 1 = female and race 0 =
White, 1 = Black, 2 = Asian, 3 = Indian, 4 = others. A few names lack a part: those pictures are counted and left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from glocalfair.data.entry import DatasetEntry
from glocalfair.data.images import listing as pictures
from glocalfair.data.images.cache import Cache, OnProgress
from glocalfair.data.images.listing import Listing, PictureOptions
from glocalfair.data.images.sources import Compact, Files, Source, compact_file, picture_files
from glocalfair.errors import GlocalfairError, invalid, unknown
from glocalfair.types import Attribute, Dataset, Ints

GET = (
    "UTKFace: https://susanqq.github.io/UTKFace (Aligned & Cropped Faces), for non-commercial research only. Unpack it "
    "so that files such as 100_0_0_20170112213500903.jpg.chip.jpg lie in the folder."
)
NAME = re.compile(r"(\d{1,3})_([01])_([0-4])_\d+\.")
OLDEST = 116
RACES = ("White", "Black", "Asian", "Indian", "Others")


@dataclass(frozen=True)
class UTKFaceOptions(PictureOptions):
    """Options of the data set `utkface`; see `PictureOptions` for `root`, `side`, `cache` and `max_corrupt`.

    Attributes
    ----------
    sensitive
        Which of gender and race are sensitive attributes, in this order.
    race
        ``"binary"``: Non-White and White, as in the paper. ``"multi"``: the five of the file names.
    age
        The label is positive from this age on.
    """

    sensitive: tuple[str, ...] = ("gender", "race")
    race: Literal["binary", "multi"] = "binary"
    age: int = 40

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.sensitive:
            if name not in ("gender", "race"):
                raise unknown("sensitive attribute of data 'utkface'", name, ("gender", "race"))
        if not 1 <= self.age <= OLDEST:
            raise invalid("data.age", f"a whole number from 1 to {OLDEST}", self.age)


def parse(name: str) -> tuple[int, int, int] | None:
    """Read age, gender and race from a file's name; None if it does not say them.

    >>> parse("39_1_20170116174525125.jpg.chip.jpg"), parse("26_1_3_20170104235512212.jpg.chip.jpg")
    (None, (26, 1, 3))
    """
    found = NAME.match(name.rpartition("/")[2])
    if found is None or int(found[1]) > OLDEST:
        return None
    return int(found[1]), int(found[2]), int(found[3])


def scan(options: UTKFaceOptions) -> Listing:
    """List the pictures: the original folder if there is one, else the compact file."""
    root = pictures.find_root(options, "utkface", GET)
    found = picture_files(root)
    malformed: tuple[str, ...] = ()
    source: Source
    if found:
        told = {name: parse(name) for name in found}
        malformed = tuple(name for name, about in told.items() if about is None)
        source = Files(root, [name for name in found if told[name] is not None])
        age, gender, race = np.array([told[name] for name in source.names], dtype=np.int64).reshape(-1, 3).T
    else:
        path = compact_file(root)
        if path is None:
            raise GlocalfairError(f"'{root}' holds neither pictures nor a compact *_jpeg.npz file. {GET}")
        compact = Compact.open(path, ("age", "gender", "race"))
        age, gender, race = (compact.arrays[key].astype(np.int64) for key in ("age", "gender", "race"))
        source = compact
    groups = [_sensitive(name, gender, race, options.race) for name in options.sensitive]
    return Listing(
        name="utkface",
        source=source,
        label=(age >= options.age).astype(np.int64),
        groups=np.stack([codes for _, codes in groups], axis=1) if groups else np.empty((len(age), 0), np.int64),
        attributes=tuple(attribute for attribute, _ in groups),
        left_out={"their names do not say age, gender and race": malformed},
    )


def _sensitive(name: str, gender: Ints, race: Ints, kind: str) -> tuple[Attribute, Ints]:
    if name == "gender":
        return Attribute("gender", ("female", "male")), 1 - gender
    if kind == "multi":
        return Attribute("race", RACES), race
    return Attribute("race", ("Non-White", "White")), (race == 0).astype(np.int64)


def prepare(options: UTKFaceOptions, on_progress: OnProgress | None = None) -> tuple[Listing, Cache]:
    """List the pictures and decode them, if that has not been done yet."""
    listing = scan(options)
    return listing, pictures.prepare(listing, options, on_progress)


def load(options: UTKFaceOptions) -> Dataset:
    """Load UTKFace."""
    return pictures.dataset(*prepare(options))


DATASET = DatasetEntry(
    name="utkface",
    description="faces: 40 years or older? Sensitive: gender, race (your own copy; see 'glocalfair data')",
    options=UTKFaceOptions,
    load=load,
    licence="non-commercial research only; never shipped",
    prepare=prepare,
    get=GET,
)
