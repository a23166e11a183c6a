"""Faces: made-up, face-like pictures whose shortcut is set by one number; for tests and for trying things out.

Is the face smiling? The mouth's curve says so, with noise. The hair says whether it is a woman or a man, and with
`shortcut` s women smile with probability ½ + .4 s, men with ½ − .4 s: the hair becomes a hint for the label. A model
that takes it misses smiling men and sees women smile who do not, which is a gap in both error rates; and it looks at
the hair, which Grad-CAM shows. With s = 0 there is nothing to gain by it. Age (grey hair) is independent of the label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from glocalfair.data.entry import DatasetEntry
from glocalfair.data.images.listing import LEAST_SIDE, silos
from glocalfair.errors import invalid
from glocalfair.rng import generator
from glocalfair.types import Attribute, Dataset, Floats, Ints

CHUNK = 256
LEAN = 0.4
ATTRIBUTES = (Attribute("gender", ("female", "male")), Attribute("age", ("adult", "young")))


@dataclass(frozen=True)
class FacesOptions:
    """Options of the data set `faces`.

    Attributes
    ----------
    rows, side
        Number of pictures, and their width and height.
    shortcut
        From 0 (hair says nothing about the label) to 1 (nine of ten women smile, one of ten men).
    noise
        Standard deviation of the mouth's curve; a smile is +1, no smile −1.
    people
        Whose pictures they are; people are never torn apart.
    silos
        Natural clients, for the partition `by_column`.
    seed
        Of the pictures. Partition, splits and training have the seed of the run.
    """

    rows: int = 2000
    side: int = 32
    shortcut: float = 0.5
    noise: float = 0.8
    people: int = 500
    silos: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("rows", 1), ("side", LEAST_SIDE), ("people", 1), ("silos", 1)):
            if getattr(self, name) < least:
                raise invalid(f"data.{name}", f"a whole number of at least {least}", getattr(self, name))
        if not 0 <= self.shortcut <= 1:
            raise invalid("data.shortcut", "a number from 0 to 1", self.shortcut)
        if not 0 <= self.noise < np.inf:
            raise invalid("data.noise", "a number of at least 0", self.noise)


def load(options: FacesOptions) -> Dataset:
    """Draw the pictures.

    >>> data = load(FacesOptions(rows=100, shortcut=1.0))
    >>> data.images.shape, bool(data.label[data.groups[:, 0] == 0].mean() > 0.7)
    ((100, 3, 32, 32), True)
    """
    rng = generator(options.seed, "faces")
    person = rng.integers(options.people, size=options.rows)
    looks = rng.random((options.people, 8))
    gender, age = (looks[:, :2] < 0.5).astype(np.int64).T[:, person]
    lean = LEAN * options.shortcut * np.where(gender == 0, 1, -1)
    label = (rng.random(options.rows) < 0.5 + lean).astype(np.int64)
    curve = 2 * label - 1 + options.noise * rng.standard_normal(options.rows)
    jitter = rng.uniform(-1, 1, (options.rows, 3))
    images = np.empty((options.rows, 3, options.side, options.side), dtype=np.uint8)
    for begin in range(0, options.rows, CHUNK):
        part = slice(begin, begin + CHUNK)
        images[part] = draw(options.side, gender[part], age[part], curve[part], looks[person[part]], jitter[part])
    noise = rng.integers(-12, 13, size=images.shape, dtype=np.int16)
    owner, owner_names = silos(person, min(options.silos, options.people))
    return Dataset(
        name="faces",
        numeric=np.empty((options.rows, 0), dtype=np.float32),
        numeric_names=(),
        categorical=np.empty((options.rows, 0), dtype=np.int64),
        categories=(),
        label=label,
        groups=np.stack([gender, age], axis=1),
        attributes=ATTRIBUTES,
        owner=owner,
        owner_names=owner_names,
        images=np.clip(images + noise, 0, 255).astype(np.uint8),
        unit=person,
    )


def draw(side: int, gender: Ints, age: Ints, curve: Floats, looks: Floats, jitter: Floats) -> npt.NDArray[np.uint8]:
    """Paint faces: background, hair, head, eyes and a mouth whose ends rise with `curve`."""
    grid = (np.arange(side) + 0.5) / side
    tall = [np.asarray(v)[:, None, None] for v in looks.T]
    x = grid[None, None, :] - 0.5 - 0.02 * jitter[:, 0, None, None]
    y = grid[None, :, None] - 0.5 - 0.02 * jitter[:, 1, None, None]
    female = (gender == 0)[:, None, None]
    young = (age == 1)[:, None, None]
    wide, high = 0.24 + 0.04 * tall[2], 0.34 + 0.04 * tall[3]

    picture = np.ones((len(gender), 3, side, side)) * (90 + 90 * tall[4])[:, None]
    # Long hair falls to the chin, short hair ends above the eyes.
    length = np.where(female, 0.32, -0.12)
    hair = ((x / (wide + 0.1)) ** 2 + ((y + 0.06) / (high + 0.08)) ** 2 < 1) & (y < length)
    colours = np.where(young, 40 + 60 * tall[5], 150 + 60 * tall[5])[:, None] * np.array([1.0, 0.8, 0.6])[:, None, None]
    picture = np.where(hair[:, None], colours, picture)
    head = (x / wide) ** 2 + (y / high) ** 2 < 1
    head &= y > -high + 0.12
    skin = (120 + 110 * tall[6])[:, None] * np.array([1.0, 0.82, 0.7])[:, None, None]
    picture = np.where(head[:, None], skin, picture)
    eyes = ((np.abs(x) - 0.1) / 0.035) ** 2 + ((y + 0.04) / 0.025) ** 2 < 1
    bend = np.clip(curve, -3, 3)[:, None, None] * 0.05
    line = 0.2 - bend * ((x / 0.12) ** 2 - 0.5)
    mouth = (np.abs(y - line) < 0.03) & (np.abs(x) < 0.12)
    picture = np.where(eyes[:, None], 30.0, picture)
    picture = np.where(mouth[:, None], np.array([150.0, 40.0, 50.0])[:, None, None], picture)
    light = 1 + 0.1 * jitter[:, 2, None, None, None]
    pixels: npt.NDArray[np.uint8] = np.clip(picture * light, 0, 255).astype(np.uint8)
    return pixels


DATASET = DatasetEntry(
    name="faces",
    description="made-up faces with a shortcut of your choice: smiling? Sensitive: gender, age",
    options=FacesOptions,
    load=load,
    licence="made up; nobody's",
)
