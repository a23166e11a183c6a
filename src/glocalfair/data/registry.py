"""Finds the datasets: every module of this package that defines ``DATASET``, or ``DATASETS`` with several."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from glocalfair.data.entry import DatasetEntry
from glocalfair.errors import unknown
from glocalfair.options import from_mapping
from glocalfair.types import Dataset


@cache
def datasets() -> Mapping[str, DatasetEntry]:
    """Return the datasets by name, in alphabetical order.

    >>> "adult" in datasets() and "synthetic" in datasets()
    True
    """
    package = importlib.import_module("glocalfair.data")
    found: dict[str, DatasetEntry] = {}
    for info in pkgutil.iter_modules(package.__path__, "glocalfair.data."):
        module = importlib.import_module(info.name)
        for entry in (getattr(module, "DATASET", None), *getattr(module, "DATASETS", ())):
            if isinstance(entry, DatasetEntry):
                assert entry.name not in found, f"two modules define the dataset {entry.name!r}"
                found[entry.name] = entry
    return MappingProxyType(dict(sorted(found.items())))


def build_options(entry: DatasetEntry, values: Mapping[str, Any]) -> Any:
    """Return the dataset's options with `values` set, or an error that names the nearest option.

    >>> build_options(datasets()["adult"], {"race": "multi"}).race
    'multi'
    >>> build_options(datasets()["adult"], {"rase": "multi"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    glocalfair.errors.GlocalfairError: Unknown 'adult' option 'rase'. Did you mean 'race'? ...
    """
    return from_mapping(entry.options, values, kind=f"'{entry.name}' option")


def load(name: str, **options: Any) -> Dataset:
    """Load a dataset by name.

    >>> len(load("synthetic", rows=500))
    500
    """
    if name not in datasets():
        raise unknown("data", name, datasets())
    entry = datasets()[name]
    return entry.load(build_options(entry, options))
