"""How a table is read: which column is what, with all categories and groups.

A schema is found once (`glocalfair.data.frame.infer`), stored with the model, and then reads every later table the
same way; a site can check its own file against it. It is plain data (`to_dict`, `from_dict`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from glocalfair.data.frame.options import MISSING_VALUES
from glocalfair.data.frame.sensitive import Sensitive
from glocalfair.data.frame.values import MISSING, OTHER, UNKNOWN, codes, numbers, readable, text
from glocalfair.errors import GlocalfairError, unknown
from glocalfair.types import Dataset, Ints

if TYPE_CHECKING:
    import polars as pl

_COLUMNS_SHOWN = 20


@dataclass(frozen=True)
class Misfit:
    """What of a table does not fit the schema, by column: counts of values."""

    unknown: Mapping[str, int] = field(default_factory=dict)
    """Categories the schema does not have; they are read as none of those it has."""
    rare: Mapping[str, int] = field(default_factory=dict)
    """Categories that the schema does not have by name; it has ``(other)`` for them."""
    missing: Mapping[str, int] = field(default_factory=dict)
    """Missing values in a categorical column that had none in the training."""
    not_numbers: Mapping[str, int] = field(default_factory=dict)
    """Values of a numeric column that are no finite number; they count as missing."""
    extra: tuple[str, ...] = ()
    """Columns that are not used."""
    dropped: int = 0
    """Rows left out because their label is missing or their group is unknown."""

    def lines(self) -> list[str]:
        """Describe it, a line for each column.

        >>> Misfit({"race": 3}).lines()
        ["Column 'race': 3 values that the model has never seen."]
        """
        found = [
            f"Column '{name}': {count:,} value{'s' * (count > 1)} that the model has never seen."
            for name, count in self.unknown.items()
        ]
        found += [f"Column '{name}': {count:,} of its values count as {OTHER}." for name, count in self.rare.items()]
        found += [
            f"Column '{name}': {count:,} missing value{'s' * (count > 1)}; in the training data it had none."
            for name, count in self.missing.items()
        ]
        found += [
            f"Column '{name}': {count:,} value{'s' * (count > 1)} that are no finite numbers; they count as missing."
            for name, count in self.not_numbers.items()
        ]
        return found + (
            [f"{self.dropped:,} rows lack a label or a known group; they are left out."] * (self.dropped > 0)
        )


@dataclass(frozen=True)
class FrameSchema:
    """Columns, categories and groups.

    Attributes
    ----------
    label, negative, positive
        The label column and its two values.
    sensitive
        The sensitive attributes.
    client
        The column that names the organisation, or None.
    numeric
        Numeric input columns.
    categorical
        Categorical input columns with their values.
    missing_values
        Texts that stand for a missing value.
    """

    label: str = "label"
    negative: str = "0"
    positive: str = "1"
    sensitive: tuple[Sensitive, ...] = ()
    client: str | None = None
    numeric: tuple[str, ...] = ()
    categorical: tuple[tuple[str, tuple[str, ...]], ...] = ()
    missing_values: tuple[str, ...] = MISSING_VALUES

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the input columns."""
        return (*self.numeric, *(name for name, _ in self.categorical))

    @classmethod
    def of(cls, dataset: Dataset) -> FrameSchema:
        """Describe the inputs of a dataset that did not come from a table of the user's."""
        return cls(numeric=dataset.numeric_names, categorical=dataset.categories)

    def check_columns(self, frame: pl.DataFrame) -> None:
        """Refuse a table that lacks an input column."""
        lacking = [name for name in self.inputs if name not in frame.columns]
        if lacking:
            shown = ", ".join(f"'{name}'" for name in lacking[:5]) + (" …" if len(lacking) > 5 else "")
            rest = frame.width - _COLUMNS_SHOWN
            more = f" and {rest} more" if rest > 0 else ""
            raise GlocalfairError(
                f"The table lacks {len(lacking)} of the {len(self.inputs)} columns that the model reads: {shown}. "
                f"It has: {', '.join(frame.columns[:_COLUMNS_SHOWN])}{more}."
            )

    def read_inputs(self, frame: pl.DataFrame, name: str = "frame") -> tuple[Dataset, Misfit]:
        """Read the input columns alone, as for a prediction: the label is all 0, there are no groups."""
        self.check_columns(frame)
        rows = frame.height
        unknown: dict[str, int] = {}
        rare: dict[str, int] = {}
        empty: dict[str, int] = {}
        bad: dict[str, int] = {}
        numeric = np.empty((rows, len(self.numeric)), dtype=np.float32)
        for j, column in enumerate(self.numeric):
            numeric[:, j], count = numbers(frame[column], self.missing_values)
            if count:
                bad[column] = count
        categorical = np.empty((rows, len(self.categorical)), dtype=np.int32)
        for j, (column, values) in enumerate(self.categorical):
            categorical[:, j], count, missing = self._categories(frame[column], values)
            if count:
                (rare if OTHER in values else unknown)[column] = count
            if missing:
                empty[column] = missing
        dataset = Dataset(
            name=name,
            numeric=numeric,
            numeric_names=self.numeric,
            categorical=categorical,
            categories=tuple(
                (column, (*values, UNKNOWN) if column in {*unknown, *empty} and OTHER not in values else values)
                for column, values in self.categorical
            ),
            label=np.zeros(rows, dtype=np.int64),
            groups=np.zeros((rows, 0), dtype=np.int32),
            attributes=(),
        )
        known = {*self.inputs, self.label, self.client, *(each.column for each in self.sensitive)}
        extra = tuple(name for name in frame.columns if name not in known)
        return dataset, Misfit(unknown, rare, empty, bad, extra)

    def read(self, frame: pl.DataFrame, name: str = "frame") -> tuple[Dataset, Misfit]:
        """Read a table with labels and groups, such as a site's own part of the data.

        Rows without a label, or with a group that the schema does not know, are left out and counted.

        >>> import polars as pl
        >>> schema = FrameSchema("y", sensitive=(Sensitive("sex", ("F", "M")),), numeric=("age",))
        >>> dataset, misfit = schema.read(pl.DataFrame({"age": [31, 45], "sex": ["F", "X"], "y": [0, 1]}))
        >>> len(dataset), misfit.unknown, misfit.dropped
        (1, {'sex': 1}, 1)
        """
        for column in (self.label, *(each.column for each in self.sensitive)):
            if column not in frame.columns:
                raise unknown("column", column, frame.columns)
        label, groups = self.read_label(frame), self.read_groups(frame)
        used = (label >= 0) & (groups >= 0).all(axis=1)
        strange = {
            each.column: int((codes < 0).sum())
            for each, codes in zip(self.sensitive, groups.T, strict=True)
            if (codes < 0).any()
        }
        inputs, misfit = self.read_inputs(frame.filter(used), name)
        dataset = replace(
            inputs,
            label=label[used].astype(np.int64),
            groups=groups[used],
            attributes=tuple(each.attribute for each in self.sensitive),
        )
        unknown_values = {**misfit.unknown, **strange}
        return dataset, replace(misfit, unknown=unknown_values, dropped=int((~used).sum()))

    def _categories(self, column: pl.Series, values: tuple[str, ...]) -> tuple[npt.NDArray[np.int32], int, int]:
        """Code a column; what is unknown gets the code after the last, or that of ``(other)``.

        Returns the codes, and how many values are unknown and how many missing without a code of their own.
        """
        if not readable(column):
            raise GlocalfairError(f"The column '{column.name}' holds {column.dtype}, not numbers or words.")
        strings = text(column, self.missing_values)
        if MISSING in values:
            strings = strings.fill_null(MISSING)
        found = codes(strings, values).copy()
        strange = found < 0
        found[strange] = values.index(OTHER) if OTHER in values else len(values)
        missing = strings.null_count()
        return found, int(strange.sum()) - missing, missing

    def read_label(self, frame: pl.DataFrame) -> npt.NDArray[np.int32]:
        """Return 0 and 1; −1 where the label is missing."""
        strings = text(frame[self.label], self.missing_values)
        found = codes(strings, (self.negative, self.positive))
        strange = (found < 0) & strings.is_not_null().to_numpy()
        if strange.any():
            value = strings.filter(strange)[0]
            raise GlocalfairError(
                f"The label '{self.label}' is '{value}' somewhere; "
                f"only '{self.negative}' and '{self.positive}' are known."
            )
        return found

    def read_groups(self, frame: pl.DataFrame) -> Ints:
        """Return the groups ``[rows, attributes]``; −1 where a value is missing or unknown."""
        columns = [each.code(frame[each.column], self.missing_values) for each in self.sensitive]
        return np.stack(columns, axis=1) if columns else np.zeros((frame.height, 0), dtype=np.int32)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, fit for JSON."""
        return {
            "label": self.label,
            "negative": self.negative,
            "positive": self.positive,
            "sensitive": [each.to_dict() for each in self.sensitive],
            "client": self.client,
            "numeric": list(self.numeric),
            "categorical": [[name, list(values)] for name, values in self.categorical],
            "missing_values": list(self.missing_values),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> FrameSchema:
        """Undo `to_dict`; a mapping that is no schema is an error.

        >>> schema = FrameSchema("approved", "no", "yes", numeric=("age",), categorical=(("sex", ("F", "M")),))
        >>> FrameSchema.from_dict(schema.to_dict()) == schema
        True
        """
        try:
            client = values["client"]
            return cls(
                label=str(values["label"]),
                negative=str(values["negative"]),
                positive=str(values["positive"]),
                sensitive=tuple(Sensitive.from_dict(each) for each in values["sensitive"]),
                client=None if client is None else str(client),
                numeric=tuple(map(str, values["numeric"])),
                categorical=tuple((str(name), tuple(map(str, of))) for name, of in values["categorical"]),
                missing_values=tuple(map(str, values["missing_values"])),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise GlocalfairError(f"This is no schema of a table: {type(error).__name__} {error}.") from error
