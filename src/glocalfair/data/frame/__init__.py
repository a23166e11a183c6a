"""Your own table: a CSV or Parquet file, or a frame in memory.

`prepare` understands a table (types, label, groups, leaks), `FrameSchema` reads later tables the same way.
"""

from __future__ import annotations

import dataclasses

from glocalfair.data.entry import DatasetEntry
from glocalfair.data.frame.infer import Prepared, prepare
from glocalfair.data.frame.options import FrameOptions
from glocalfair.data.frame.profile import Profile
from glocalfair.data.frame.reading import as_polars, read, table_name
from glocalfair.data.frame.schema import FrameSchema, Misfit
from glocalfair.data.frame.sensitive import Sensitive
from glocalfair.errors import GlocalfairError
from glocalfair.types import Dataset

__all__ = [
    "DATASET",
    "FrameOptions",
    "FrameSchema",
    "Misfit",
    "Prepared",
    "Profile",
    "Sensitive",
    "as_polars",
    "prepare",
    "read",
]


def prepare_file(options: FrameOptions) -> Prepared:
    """Read and understand the file at `FrameOptions.path`."""
    if not options.path:
        raise GlocalfairError("Which file? Give --data FILE, or 'path' in [data].")
    roles = {options.label, options.client, *options.keep}
    roles |= {spec.rpartition(":")[0] or spec for spec in options.sensitive} | set(options.sensitive)
    # Columns without a role are not even loaded; a sensitive one is, also if it is to be no input.
    unread = [name for name in options.drop if name not in roles]
    frame = read(options.path, options.separator, options.missing_values, unread)
    kept = tuple(name for name in options.drop if name in roles)
    return prepare(frame, dataclasses.replace(options, drop=kept), table_name(options.path))


def load(options: FrameOptions) -> Dataset:
    """Read a table of the user's; how it was understood comes along under `Dataset.about`."""
    dataset, schema, profile = prepare_file(options)
    return dataclasses.replace(dataset, about={"schema": schema.to_dict(), "profile": profile.to_dict()})


DATASET = DatasetEntry(
    name="frame",
    description="your own CSV or Parquet file: --data FILE --label COLUMN --sensitive COLUMN …",
    options=FrameOptions,
    load=load,
    licence="yours",
)
