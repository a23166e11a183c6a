"""Tables to try a deployment with: the Adult census data, dealt out to some sites."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import numpy as np

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
    for path in paths:
        if path.exists():
            raise GlocalfairError(f"'{path}' exists already and is not replaced. Choose another folder.")
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
