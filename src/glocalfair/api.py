"""The front door for Python: `Federation.from_frame`, `train`, `Result`."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from glocalfair.bundle import preprocessing
from glocalfair.data.federation import build
from glocalfair.data.frame import FrameOptions, as_polars, prepare
from glocalfair.data.partition import PartitionSpec
from glocalfair.data.split import SplitSpec
from glocalfair.options import from_mapping
from glocalfair.types import Federation


class FrameWarning(UserWarning):
    """Something in the user's table that they should look at."""


def federation_from_frame(
    frame: Any,
    *,
    label: str,
    sensitive: str | Sequence[str] = (),
    client: str | None = None,
    positive: str | int | float | bool | None = None,
    partition: str | Mapping[str, Any] | None = None,
    split: Mapping[str, Any] | None = None,
    seed: int = 0,
    name: str = "frame",
    **options: Any,
) -> Federation:
    """Make a federation of a table; `Federation.from_frame` is this function.

    Parameters
    ----------
    frame
        A polars or pandas frame, a mapping of columns, or the path of a CSV or Parquet file.
    label, positive
        The column to predict, and which of its two values is positive if that is not obvious.
    sensitive
        Sensitive columns; ``"age:<40"`` makes groups of a number.
    client
        The column that names the organisation of a row. Without it `partition` deals the rows out.
    partition
        A name of ``glocalfair list partitions``, or its settings: ``{"name": "dirichlet", "clients": 8}``.
    split
        Shares of the parts: ``{"test": 0.2}``.
    seed
        Equal seeds give equal federations.
    name
        For tables and messages.
    options
        The other options of `FrameOptions`, such as ``drop`` and ``missing_sensitive``.

    Examples
    --------
    >>> people = {"age": range(60), "sex": ["F", "M"] * 30, "site": ["a", "b", "c"] * 20, "hired": [0, 0, 1, 1] * 15}
    >>> federation = Federation.from_frame(people, label="hired", sensitive="sex", client="site", keep=["age"])
    >>> [client.name for client in federation.clients], federation.attributes[0].values
    (['a', 'b', 'c'], ('F', 'M'))
    """
    sensitive = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    values = {"label": label, "positive": positive, "sensitive": sensitive, "client": client, **options}
    found = prepare(as_polars(frame), from_mapping(FrameOptions, values, "option of the frame"), name)
    for text in found.profile.warnings:
        warnings.warn(text, FrameWarning, stacklevel=3)
    if partition is None:
        partition = {"name": "by_column", "min_rows": 1} if client is not None else "iid"
    settings = {"name": partition} if isinstance(partition, str) else partition
    about = {"schema": found.schema.to_dict(), "profile": found.profile.to_dict()}
    dataset = dataclasses.replace(found.dataset, about=about)
    federation, encoder = build(
        dataset, from_mapping(PartitionSpec, settings, "setting"), from_mapping(SplitSpec, split or {}, "share"), seed
    )
    return dataclasses.replace(federation, about=preprocessing(dataset, encoder))
