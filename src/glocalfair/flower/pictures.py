"""Pictures of a site's own: a folder, and a table in it with the file, the label and the groups of each picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glocalfair.data.frame.options import FrameOptions
from glocalfair.data.frame.reading import read
from glocalfair.data.images import listing as pictures
from glocalfair.data.images.cache import open_or_decode
from glocalfair.data.images.folder import unit_codes
from glocalfair.data.images.sources import Files
from glocalfair.errors import GlocalfairError, unknown
from glocalfair.flower.schema import Fit, Pictures, PublicSchema

if TYPE_CHECKING:
    import polars as pl

TABLE = "labels.csv"
ROW = "(row number)"


def fit(schema: PublicSchema, data: Path, cache: Path, name: str = "site") -> Fit:
    """Read a site's pictures and say what does not fit; the lines name files, so they must stay at the site.

    Parameters
    ----------
    schema
        The published schema.
    data
        The folder, with a table ``labels.csv``; or the table itself, in the folder of the pictures.
    cache
        Where the decoded pictures are kept.
    name
        The site.
    """
    about = schema.pictures
    assert about is not None
    folder, frame = _opened(data, schema.frame.missing_values)
    _check_columns(frame, about)
    _, misfit = schema.frame.read(frame)
    label, groups = schema.frame.read_label(frame), schema.frame.read_groups(frame)
    files = _files(frame, about)
    there = np.array([bool(file) and (folder / file).is_file() for file in files], dtype=bool)
    kept = np.flatnonzero(there & (label >= 0) & (groups >= 0).all(axis=1))
    listing = pictures.Listing(
        name="pictures",
        source=Files(folder, [files[row] for row in kept]),
        label=label[kept].astype(np.int64),
        groups=groups[kept],
        attributes=tuple(each.attribute for each in schema.frame.sensitive),
        unit=None if about.unit is None else unit_codes(frame[about.unit])[kept],
        left_out={"no such file": tuple(files[row] for row in np.flatnonzero(~there))},
    )
    # Whatever share is unreadable is left out and told, as rows of a table are.
    decoded = open_or_decode(listing.source, about.side, cache, "pictures", max_corrupt=1.0)
    if not len(decoded.kept):
        raise GlocalfairError(
            f"None of {len(files):,} pictures fits the schema: files are missing or unreadable, or labels or groups "
            "unknown. The site's 'glocalfair flower check' says which."
        )
    dataset = replace(pictures.dataset(listing, decoded), name=name)
    return Fit(dataset, [*schema.lines(misfit), *pictures.notices(dataset.about["pictures"])])


def schema_of(
    data: Path,
    side: int,
    options: FrameOptions,
    file: str = "file",
    unit: str | None = None,
) -> tuple[PublicSchema, Sequence[str]]:
    """Make a schema of one site's pictures, and return what to look at.

    Parameters
    ----------
    data
        As in `fit`.
    side
        Width and height to which every site decodes its pictures.
    options
        Label, positive value and sensitive columns.
    file, unit
        The columns with the picture's path and, if there is one, with whose picture it is.
    """
    from glocalfair.data.frame import prepare

    about = Pictures.from_dict({"side": side, "file": file, "unit": unit})
    _, frame = _opened(data, options.missing_values)
    _check_columns(frame, about)
    columns = {spec.rpartition(":")[0] or spec for spec in options.sensitive} | {options.label}
    # A table without any input is refused; this one's inputs are the pictures.
    numbers = np.arange(frame.height, dtype=np.float64)
    chosen = frame.select([c for c in frame.columns if c in columns]).with_columns(**{ROW: numbers})
    _, found, profile = prepare(chosen, replace(options, keep=(ROW,)), data.stem)
    public = replace(found, client=None, numeric=(), categorical=())
    return PublicSchema(public, (), about), [line for line in profile.warnings if ROW not in line]


def _opened(data: Path, missing: tuple[str, ...]) -> tuple[Path, pl.DataFrame]:
    table = data / TABLE if data.is_dir() else data
    return table.parent, read(table, missing_values=missing)


def _check_columns(frame: pl.DataFrame, about: Pictures) -> None:
    for column in (about.file, about.unit):
        if column is not None and column not in frame.columns:
            raise unknown("column", column, frame.columns)


def _files(frame: pl.DataFrame, about: Pictures) -> list[str]:
    import polars as pl

    return [str(file) for file in frame[about.file].cast(pl.String).fill_null("").to_list()]
