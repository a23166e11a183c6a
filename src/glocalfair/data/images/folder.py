"""Your own pictures: a folder, and a table (CSV or Parquet) with a row for each picture."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glocalfair.data.entry import DatasetEntry
from glocalfair.data.images import listing as pictures
from glocalfair.data.images.cache import Cache, OnProgress
from glocalfair.data.images.listing import Listing, PictureOptions
from glocalfair.data.images.sources import Files
from glocalfair.errors import GlocalfairError, unknown
from glocalfair.types import Dataset, Ints

if TYPE_CHECKING:
    import polars as pl

GET = "A folder of pictures with a table labels.csv in it: one row for each picture, with its file, label and groups."
ROW = "(row number)"


@dataclass(frozen=True)
class FolderOptions(PictureOptions):
    """Options of the data set `folder`; see `PictureOptions` for `root`, `side`, `cache` and `max_corrupt`.

    Attributes
    ----------
    table
        A CSV or Parquet file, relative to `root`.
    file
        The column with the picture's path, relative to `root`.
    label, positive, sensitive, client
        As for a table of your own: the column to predict (two values), which value is positive, the sensitive columns
        (``"age:<40"`` makes groups of a number), and the column that says who holds the picture.
    unit
        The column that says whose picture it is: nobody's pictures are then torn apart between training and test or
        between clients.
    """

    table: str = "labels.csv"
    file: str = "file"
    label: str = "label"
    positive: str | int | float | bool | None = None
    sensitive: tuple[str, ...] = ()
    client: str | None = None
    unit: str | None = None


def scan(options: FolderOptions) -> Listing:
    """Read the table and find its pictures."""
    import polars as pl

    from glocalfair.data.frame import FrameOptions, read
    from glocalfair.data.frame import prepare as understand

    root = pictures.find_root(options, "folder", GET)
    frame = read(root / options.table)
    for role, name in (("file", options.file), ("unit", options.unit)):
        if name is not None and name not in frame.columns:
            raise unknown(f"column for 'data.{role}'", name, frame.columns)
    files = [str(name) for name in frame[options.file].cast(pl.String).fill_null("").to_list()]
    there = np.array([bool(name) and (root / name).is_file() for name in files])
    if not there.any():
        raise GlocalfairError(
            f"None of the pictures in '{root / options.table}' is in '{root}' (column '{options.file}')."
        )
    columns = {spec.rpartition(":")[0] or spec for spec in options.sensitive} | {options.label, options.client}
    chosen = frame.select([name for name in frame.columns if name in columns])
    numbered = chosen.with_columns(pl.Series(ROW, np.arange(len(files), dtype=np.float64))).filter(pl.Series(there))
    told = FrameOptions(
        label=options.label,
        positive=options.positive,
        sensitive=options.sensitive,
        client=options.client,
        keep=(ROW,),
    )
    found = understand(numbered, told, Path(options.table).stem).dataset
    rows = found.numeric[:, found.numeric_names.index(ROW)].astype(np.int64)
    kept = set(rows.tolist())
    return Listing(
        name="folder",
        source=Files(root, [files[row] for row in rows]),
        label=found.label,
        groups=found.groups,
        attributes=found.attributes,
        unit=None if options.unit is None else unit_codes(frame[options.unit])[rows],
        owner=found.owner,
        owner_names=found.owner_names,
        left_out={
            "no such file": tuple(name for name, here in zip(files, there, strict=True) if not here),
            "no label": tuple(
                n for i, (n, here) in enumerate(zip(files, there, strict=True)) if here and i not in kept
            ),
        },
    )


def unit_codes(column: pl.Series) -> Ints:
    """Number the people of a column."""
    import polars as pl

    values = np.array(column.cast(pl.String).fill_null("").to_list())
    codes: Ints = np.unique(values, return_inverse=True)[1]
    # Without a name every picture is somebody else's.
    codes[values == ""] = len(values) + np.arange(int((values == "").sum()))
    return codes


def prepare(options: FolderOptions, on_progress: OnProgress | None = None) -> tuple[Listing, Cache]:
    """List the pictures and decode them, if that has not been done yet."""
    listing = scan(options)
    return listing, pictures.prepare(listing, options, on_progress)


def load(options: FolderOptions) -> Dataset:
    """Load pictures of the user's own."""
    data = pictures.dataset(*prepare(options))
    return dataclasses.replace(data, name=Path(options.root or "folder").name or "folder")


DATASET = DatasetEntry(
    name="folder",
    description="your own pictures: a folder with a table of labels and attributes",
    options=FolderOptions,
    load=load,
    licence="yours",
    prepare=prepare,
    get=GET,
)
