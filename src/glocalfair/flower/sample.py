"""To try a deployment with: the Adult census data dealt out to some sites, or made-up faces."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import numpy as np

from glocalfair.data.images.faces import FacesOptions, load
from glocalfair.errors import GlocalfairError
from glocalfair.rng import generator


def write_sample(folder: Path, sites: tuple[str, ...], rows: int = 6000, seed: int = 0) -> list[Path]:
    """Write a CSV file for each site; sites differ in size and in their share of women.

    Parameters
    ----------
    folder
        Where; files that are there are not replaced.
    sites
        Names of the sites.
    rows
        How many rows in all.
    seed
        Equal seeds give equal files.
    """
    import polars as pl

    paths = [folder / f"{site}.csv" for site in sites]
    _refuse_existing(paths)
    rng = generator(seed, "sample")
    people = pl.read_parquet(str(resources.files("glocalfair") / "data" / "files" / "adult.parquet"))
    people = people.drop("fnlwgt", "part")
    people = people[np.sort(rng.permutation(people.height)[:rows])]
    women = (people["sex"] == "Female").to_numpy()
    # Site k of n draws women with weight k, men with weight n − k + 1.
    weights = np.arange(1, len(sites) + 1)
    shares = np.where(women[:, None], weights, weights[::-1])
    edges = np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)
    owner = (rng.random(people.height)[:, None] > edges[:, :-1]).sum(axis=1)
    folder.mkdir(parents=True, exist_ok=True)
    for place, path in enumerate(paths):
        people.filter(owner == place).write_csv(path)
    return paths


def write_faces(folder: Path, sites: tuple[str, ...], rows: int = 6000, seed: int = 0) -> list[Path]:
    """Write a folder of made-up faces for each site: PNG files, and ``labels.csv``; see `write_sample`."""
    import polars as pl

    from glocalfair.data.images.cache import needs_pillow

    needs_pillow()
    from PIL import Image

    paths = [folder / site for site in sites]
    _refuse_existing(paths)
    for place, path in enumerate(paths):
        faces = load(FacesOptions(rows=max(1, rows // len(sites)), seed=seed + place))
        assert faces.images is not None and faces.unit is not None
        path.mkdir(parents=True)
        names = [f"{row:05d}.png" for row in range(len(faces))]
        for name, image in zip(names, faces.images, strict=True):
            Image.fromarray(image.transpose(1, 2, 0)).save(path / name)
        columns = {
            "file": names,
            "smiling": np.where(faces.label == 1, "yes", "no"),
            "person": [f"p{person:05d}" for person in faces.unit],
            **{a.name: np.array(a.values)[codes] for a, codes in zip(faces.attributes, faces.groups.T, strict=True)},
        }
        pl.DataFrame(columns).write_csv(path / "labels.csv")
    return paths


def _refuse_existing(paths: list[Path]) -> None:
    for path in paths:
        if path.exists():
            raise GlocalfairError(f"'{path}' exists already and is not replaced. Choose another folder.")
