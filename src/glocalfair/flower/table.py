"""A site's rows from its own CSV or Parquet file or pictures: read by the published schema, split by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from glocalfair.data.encoder import Encoder
from glocalfair.data.frame.reading import read
from glocalfair.data.images.cache import default_folder
from glocalfair.data.split import TEST, TRAIN, VALIDATION, SplitSpec, client_parts
from glocalfair.data.units import units_of
from glocalfair.errors import GlocalfairError
from glocalfair.flower import pictures
from glocalfair.flower.schema import Fit, PublicSchema
from glocalfair.flower.settings import Terms
from glocalfair.flower.site import Rows
from glocalfair.rng import generator
from glocalfair.types import Client, Dataset, Federation


def table_rows(name: str, path: Path, pinned: Path | None, terms: Terms, cache: Path | None = None) -> Rows:
    """Read a site's table, or its pictures if the schema is of pictures.

    Parameters
    ----------
    name
        The site.
    path
        Its table or its folder of pictures.
    pinned
        The schema that the site has agreed to, if it keeps a copy: another one is then refused.
    terms
        What the coordinator says; the schema comes with it.
    cache
        Where decoded pictures are kept; None for the user's cache folder.
    """
    if terms.schema is None:
        raise GlocalfairError("The coordinator has published no schema.")
    schema = PublicSchema.from_dict(terms.schema)
    if pinned is not None and PublicSchema.load(pinned) != schema:
        raise GlocalfairError(f"The coordinator's schema is not the one that site '{name}' has agreed to.")
    dataset, lines = fit(schema, path, name, cache)
    client = split(name, dataset, SplitSpec(0.0, terms.validation, terms.local_test), terms.seed)
    encoder = schema.encoder() if terms.encoder is None else Encoder.from_dict(terms.encoder)
    totals = schema.totals(dataset, client.train) if terms.standardise == "totals" else None
    return Rows(held(dataset, encoder, client), totals, tuple(lines))


def fit(schema: PublicSchema, path: Path, name: str = "site", cache: Path | None = None) -> Fit:
    """Read a table or pictures by a schema and say what does not fit."""
    if schema.pictures is not None:
        return pictures.fit(schema, path, cache or default_folder(), name)
    if path.is_dir():
        raise GlocalfairError(f"The schema is of a table, but '{path.name}' is a folder. Name a CSV or Parquet file.")
    return schema.fit(read(path, missing_values=schema.frame.missing_values), name)


def split(name: str, dataset: Dataset, shares: SplitSpec, seed: int) -> Client:
    """Cut a site's rows into train, validation and test by the simulator's rule, with numbers of the site's own."""
    units = units_of(dataset)
    own = int(generator(seed, "site", name).integers(2**62))
    parts = client_parts(np.zeros(len(units.label), dtype=np.int64), units.label, units.cells, shares, own)[
        units.of_row
    ]
    return Client(name, *(np.flatnonzero(parts == part) for part in (TRAIN, VALIDATION, TEST)))


def held(dataset: Dataset, encoder: Encoder, client: Client) -> Federation:
    """Make a federation of one site."""
    return Federation(
        name=dataset.name,
        x=encoder.transform(dataset) if dataset.images is None else dataset.images,
        y=dataset.label,
        groups=dataset.groups,
        attributes=dataset.attributes,
        clients=(client,),
        test=np.empty(0, dtype=np.int64),
        feature_names=encoder.names,
    )
