"""From columns to the float matrix that a model reads, with statistics of training rows alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from glocalfair.errors import GlocalfairError
from glocalfair.types import Dataset, Ints


@dataclass(frozen=True)
class Encoder:
    """Standardised numeric columns, indicators of missing numbers, one-hot categories.

    A missing number becomes the mean, that is 0. A column without spread in the training rows becomes 0. The
    one-hot columns are those the data declare, so the width does not depend on a draw; an unknown category is
    all zeros.

    Attributes
    ----------
    numeric
        Names of the numeric columns.
    mean, std
        Of the training rows; ``std`` is 0 for a constant column.
    indicator
        Which numeric columns were missing somewhere in the training rows and have an indicator column.
    categories
        Each categorical column with its values.
    """

    numeric: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    indicator: tuple[bool, ...]
    categories: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        missing = (f"{n} missing" for n, has in zip(self.numeric, self.indicator, strict=True) if has)
        one_hot = (f"{name}={value}" for name, values in self.categories for value in values)
        return (*self.numeric, *missing, *one_hot)

    @classmethod
    def fit(cls, dataset: Dataset, rows: Ints) -> Encoder:
        """Take mean and standard deviation from `rows`, which are to be training rows only."""
        moments = [_moments(dataset.numeric[rows, j]) for j in range(dataset.numeric.shape[1])]
        return cls(
            numeric=dataset.numeric_names,
            mean=tuple(mean for mean, _, _ in moments),
            std=tuple(std for _, std, _ in moments),
            indicator=tuple(missing for _, _, missing in moments),
            categories=dataset.categories,
        )

    def transform(self, dataset: Dataset) -> npt.NDArray[np.float32]:
        """Encode all rows. Columns are found by name and may stand in another order than when fitted."""
        out = np.zeros((len(dataset), len(self.names)), dtype=np.float32)
        extra = len(self.numeric)
        for j, name in enumerate(self.numeric):
            column = dataset.numeric[:, _position(name, dataset.numeric_names)].astype(np.float64)
            missing = np.isnan(column)
            if self.std[j] > 0:
                out[:, j] = np.where(missing, 0.0, (column - self.mean[j]) / self.std[j])
            if self.indicator[j]:
                out[:, extra] = missing
                extra += 1
        given = dict(dataset.categories)
        rows = np.arange(len(dataset))
        for name, values in self.categories:
            place = _position(name, tuple(given))
            target = {value: extra + k for k, value in enumerate(values)}
            lookup = np.array([target.get(value, -1) for value in given[name]], dtype=np.int64)
            columns = lookup[dataset.categorical[:, place]]
            known = columns >= 0
            out[rows[known], columns[known]] = 1.0
            extra += len(values)
        return out

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, fit for JSON."""
        return {
            "numeric": list(self.numeric),
            "mean": list(self.mean),
            "std": list(self.std),
            "indicator": list(self.indicator),
            "categories": [[name, list(values)] for name, values in self.categories],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Encoder:
        """Undo `to_dict`.

        >>> encoder = Encoder(("age",), (38.6,), (13.7,), (False,), (("sex", ("Female", "Male")),))
        >>> Encoder.from_dict(encoder.to_dict()) == encoder
        True
        """
        return cls(
            numeric=tuple(values["numeric"]),
            mean=tuple(map(float, values["mean"])),
            std=tuple(map(float, values["std"])),
            indicator=tuple(map(bool, values["indicator"])),
            categories=tuple((name, tuple(names)) for name, names in values["categories"]),
        )


def _position(name: str, names: tuple[str, ...]) -> int:
    if name not in names:
        raise GlocalfairError(f"The data lack the column '{name}' that the model was trained with.")
    return names.index(name)


def _moments(column: npt.NDArray[Any]) -> tuple[float, float, bool]:
    """Return mean, standard deviation and whether something is missing."""
    column = column.astype(np.float64)
    present = column[~np.isnan(column)]
    if not len(present):
        return 0.0, 0.0, len(column) > 0
    mean, std = float(present.mean()), float(present.std())
    # A constant such as 0.1 has a standard deviation of 1e-17, not 0, and must not be blown up by it.
    constant = math.isclose(std, 0.0, abs_tol=1e-9 * max(abs(mean), 1e-300))
    return mean, 0.0 if constant else std, len(present) < len(column)
