"""Adult: does a person earn more than 50,000 dollars a year? US census of 1994, 48,842 people.

All rows of the two original files are used. A missing value is a category of its own, ``(missing)``. Of the
14 attributes 13 are inputs: `fnlwgt` says how many people a row stands for in the census and describes
nobody, so it stays in the file and out of the model. `race` enters with its five values also when the
*sensitive attribute* is binary.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from glocalfair.data.entry import DatasetEntry
from glocalfair.errors import invalid, unknown
from glocalfair.types import Attribute, Dataset, Ints

if TYPE_CHECKING:
    import polars as pl

NUMERIC = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
CATEGORICAL = (
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native-country",
)
MISSING = "(missing)"
# The group that the literature calls privileged comes last, so that gaps "code 0 − code 1" have its sign.
SEX = ("Female", "Male")
RACES = ("Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White")


@dataclass(frozen=True)
class AdultOptions:
    """Options of the data set `adult`.

    Attributes
    ----------
    sensitive
        Which of sex and race are sensitive attributes, in this order.
    race
        ``"binary"``: Non-White and White, as in the paper. ``"multi"``: the five values of the census.
    sensitive_as_input
        Whether the model sees the sensitive columns. Without them it still sees proxies: `relationship` is
        Husband or Wife for many.
    """

    sensitive: tuple[str, ...] = ("sex", "race")
    race: Literal["binary", "multi"] = "binary"
    sensitive_as_input: bool = True

    def __post_init__(self) -> None:
        for name in self.sensitive:
            if name not in ("sex", "race"):
                raise unknown("sensitive attribute of data 'adult'", name, ("sex", "race"))
        if not self.sensitive or len(set(self.sensitive)) < len(self.sensitive):
            raise invalid("sensitive", "one or more attributes, each once", self.sensitive)
        if self.race not in ("binary", "multi"):
            raise invalid("race", "'binary' or 'multi'", self.race)


def read_frame() -> pl.DataFrame:
    """Return the shipped table: the original columns and `part`; null is a missing value."""
    import polars as pl

    with (resources.files("glocalfair.data") / "files" / "adult.parquet").open("rb") as file:
        return pl.read_parquet(file)


def _codes(column: pl.Series, values: tuple[str, ...]) -> Ints:
    import polars as pl

    codes: Ints = column.replace_strict(values, range(len(values)), return_dtype=pl.Int64).to_numpy()
    return codes


def _sensitive(frame: pl.DataFrame, name: str, race: str) -> tuple[Attribute, Ints]:
    if name == "sex":
        return Attribute("sex", SEX), _codes(frame["sex"], SEX)
    codes = _codes(frame["race"], RACES)
    if race == "multi":
        return Attribute("race", RACES), codes
    return Attribute("race", ("Non-White", "White")), (codes == RACES.index("White")).astype(np.int64)


def load(options: AdultOptions) -> Dataset:
    """Load Adult.

    >>> data = load(AdultOptions())
    >>> len(data), int(data.label.sum()), data.attributes[1].values
    (48842, 11687, ('Non-White', 'White'))
    """
    frame = read_frame()
    inputs = [n for n in CATEGORICAL if options.sensitive_as_input or n not in options.sensitive]
    columns: list[Ints] = []
    categories: list[tuple[str, tuple[str, ...]]] = []
    for name in inputs:
        column = frame[name].fill_null(MISSING)
        values = tuple(column.unique().sort())
        columns.append(_codes(column, values))
        categories.append((name, values))
    sensitive = [_sensitive(frame, name, options.race) for name in options.sensitive]
    numeric: np.ndarray[Any, Any] = frame.select(NUMERIC).to_numpy()
    return Dataset(
        name="adult",
        numeric=numeric.astype(np.float32),
        numeric_names=NUMERIC,
        categorical=np.stack(columns, axis=1),
        categories=tuple(categories),
        label=(frame["income"] == ">50K").to_numpy().astype(np.int64),
        groups=np.stack([codes for _, codes in sensitive], axis=1),
        attributes=tuple(attribute for attribute, _ in sensitive),
    )


DATASET = DatasetEntry(
    name="adult",
    description="US census 1994: income over 50,000 dollars; sensitive: sex, race (ships with the package)",
    options=AdultOptions,
    load=load,
    licence="CC BY 4.0, Becker & Kohavi 1996, doi:10.24432/C5XW20",
)
