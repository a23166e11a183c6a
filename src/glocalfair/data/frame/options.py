"""What a user says about a table of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from glocalfair.errors import GlocalfairError, invalid

MISSING_VALUES = ("", "?", ".", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL")
"""How a missing value is spelled in text ("." by SAS and Stata). "None" is not among them: it can be an answer."""

TRAINING = {"participation": 1.0, "epochs": 2, "lr": 0.05}
"""How a table of the user's own is trained unless they say otherwise: organisations are few and tables small, so all
of them take part in every round, and learn more in it."""


@dataclass(frozen=True)
class FrameOptions:
    """Options of the data set `frame`.

    Attributes
    ----------
    path
        A CSV or Parquet file. In an experiment file it is relative to that file.
    label
        The column to predict. It must have two values.
    positive
        Which of them is the positive one; may be left out where it is obvious (yes/no, 1/0, true/false …).
    sensitive
        The sensitive columns. ``"age:<40"`` makes two groups of a number, ``"age:25,40,60"`` four.
    client
        The column that says which organisation holds a row; without it a partition deals the rows out.
    drop
        Columns to leave out of the inputs.
    keep
        Columns to use although they look like identifiers, dates written as numbers or free text.
    sensitive_as_input
        Whether the model sees the sensitive columns.
    missing_label, missing_sensitive
        What happens to rows without a label (``"drop"`` or ``"error"``) and without a sensitive value (``"group"``:
        they form a group of their own, ``"drop"`` or ``"error"``).
    missing_values
        Texts that stand for a missing value.
    leaks, dates
        What happens to a column that gives the label away (``"warn"``, ``"drop"`` or ``"error"``) and to a date
        (``"drop"`` or ``"error"``): a date as such says nothing to a model.
    max_categories
        A categorical column keeps so many of its most frequent values; the others become ``(other)``.
    separator
        Between the fields of a CSV file; found by itself if left out.
    """

    path: str = ""
    label: str = ""
    positive: str | int | float | bool | None = None
    sensitive: tuple[str, ...] = ()
    client: str | None = None
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    sensitive_as_input: bool = True
    missing_label: Literal["drop", "error"] = "drop"
    missing_sensitive: Literal["group", "drop", "error"] = "group"
    missing_values: tuple[str, ...] = MISSING_VALUES
    leaks: Literal["warn", "drop", "error"] = "warn"
    dates: Literal["drop", "error"] = "drop"
    max_categories: int = 100
    separator: str | None = None

    def __post_init__(self) -> None:
        if not self.label:
            raise GlocalfairError("Which column is the label? Give --label COLUMN, or 'label' in [data].")
        if self.max_categories < 2:
            raise invalid("max_categories", "a whole number of at least 2", self.max_categories)
        if self.separator is not None and len(self.separator.encode()) != 1:
            raise invalid("separator", "one character", self.separator)
        if len(set(self.sensitive)) < len(self.sensitive):
            raise invalid("sensitive", "columns, each once", list(self.sensitive))
