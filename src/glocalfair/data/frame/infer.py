"""From a table and what the user says about it to a dataset, the schema that reads it, and what to tell the user."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from glocalfair.data.frame import columns as kinds
from glocalfair.data.frame import sensitive as groups
from glocalfair.data.frame.label import classes
from glocalfair.data.frame.leakage import SUSPICIOUS, TOO_GOOD, leaks, namesakes
from glocalfair.data.frame.options import FrameOptions
from glocalfair.data.frame.profile import Line, Profile
from glocalfair.data.frame.reading import original
from glocalfair.data.frame.schema import FrameSchema
from glocalfair.data.frame.values import MISSING, readable, row_list, text
from glocalfair.errors import GlocalfairError, invalid, unknown
from glocalfair.types import Dataset

if TYPE_CHECKING:
    import polars as pl

Mask = npt.NDArray[np.bool_]

_LEFT_OUT: dict[str, str] = {
    "identifier": "identifiers (a different value in almost every row)",
    "date": "dates (turn a date into a number, such as an age in years or the days since an event)",
    "text": "free text (very many different values, most of them rare)",
    "constant": "columns with one value only",
    "copy": "second copies of columns",
    "unusable": "columns that hold neither numbers nor words",
}


class Prepared(NamedTuple):
    """A table that is understood."""

    dataset: Dataset
    schema: FrameSchema
    profile: Profile


def prepare(frame: pl.DataFrame, options: FrameOptions, name: str = "frame") -> Prepared:
    """Understand a table.

    Parameters
    ----------
    frame
        The table.
    options
        Which column is what; `FrameOptions.path` is not looked at.
    name
        For tables and messages.

    Examples
    --------
    >>> import polars as pl
    >>> people = {"age": [25, 61, 38, 47], "sex": ["F", "M", "F", "M"], "hired": ["no", "yes", "yes", "no"]}
    >>> found = prepare(pl.DataFrame(people), FrameOptions(label="hired", sensitive=("sex", "age:<40")))
    >>> found.dataset.label.tolist(), found.schema.positive, found.dataset.attributes[1].values
    ([0, 1, 1, 0], 'yes', ('<40', '>=40'))
    """
    _check_names(frame, options)
    read_bytes = int(frame.estimated_size())
    used, notes = _rows(frame, options)
    dropped = frame.height - int(used.sum())
    frame = frame.filter(used) if dropped else frame
    if not frame.height:
        raise GlocalfairError("No row is left: every row lacks its label or a sensitive value.")
    strings = text(frame[options.label], options.missing_values)
    negative, positive = classes(options.label, strings.drop_nulls().unique().to_list(), options.positive)
    sensitive = tuple(
        groups.infer(spec, frame, options.missing_values, options.missing_sensitive) for spec in options.sensitive
    )
    found = _inputs(frame, options, {each.column for each in sensitive})
    schema = FrameSchema(
        label=options.label,
        negative=negative,
        positive=positive,
        sensitive=sensitive,
        client=options.client,
        numeric=tuple(each.name for each in found if each.kind == "numeric"),
        categorical=tuple((each.name, each.values) for each in found if each.kind == "categorical"),
        missing_values=options.missing_values,
    )
    if not schema.inputs:
        raise GlocalfairError("No input column is left: every column is the label, the client, dropped or unusable.")
    dataset = _dataset(frame, schema, name)
    good = {column: gain for column, gain in leaks(dataset, TOO_GOOD).items() if column not in options.keep}
    giving_away = {column: gain for column, gain in good.items() if gain >= SUSPICIOUS}
    if giving_away and options.leaks != "warn":
        return _without_leaks(frame, options, name, list(giving_away), dropped, notes)
    notes += (
        _leak_notes(schema, good, options) + _column_notes(found) + groups.few_rows(dataset.groups, dataset.attributes)
    )
    width = len(schema.numeric) + sum(len(values) for _, values in schema.categorical)
    width += sum(each.missing > 0 for each in found if each.kind == "numeric")
    memory = (frame.height * width * 4, read_bytes)
    profile = Profile(frame.height, dropped, _lines(dataset, schema, found, frame), tuple(notes), memory)
    return Prepared(dataset, schema, profile)


def _check_names(frame: pl.DataFrame, options: FrameOptions) -> None:
    known = frame.columns
    named = [("label column", options.label), *(("column in 'keep'", each) for each in options.keep)]
    named += [("client column", options.client)] if options.client is not None else []
    for kind, column in [*named, *(("column in 'drop'", each) for each in options.drop)]:
        if column not in known:
            raise unknown(kind, column, known)
    if options.client == options.label:
        raise GlocalfairError(f"The column '{options.label}' cannot be both the label and the client.")
    sensitive = [groups.parse(spec, known)[0] for spec in options.sensitive]
    if options.label in sensitive:
        raise GlocalfairError(f"The column '{options.label}' cannot be both the label and sensitive.")
    if len(set(sensitive)) < len(sensitive):
        raise invalid("sensitive", "columns, each once", list(options.sensitive))
    for role in (options.label, *sensitive, *([options.client] if options.client else [])):
        if not readable(frame[role]):
            raise GlocalfairError(f"The column '{role}' holds {frame[role].dtype}, not numbers or words.")


def _rows(frame: pl.DataFrame, options: FrameOptions) -> tuple[Mask, list[str]]:
    """Find the rows that can be used; a missing label or sensitive value is told with its row numbers."""
    notes = []
    missing = text(frame[options.label], options.missing_values).is_null().to_numpy()
    used = ~missing
    if missing.any():
        what = f"The label '{options.label}' is missing in {missing.sum():,} of {frame.height:,} rows"
        if options.missing_label == "error":
            raise GlocalfairError(f'{what} ({row_list(missing)}). Fill them in, or set missing_label = "drop".')
        notes.append(f"{what} ({row_list(missing)}): left out.")
    for spec in options.sensitive:
        column, edges, _ = groups.parse(spec, frame.columns)
        missing = groups.is_missing(frame[column], bool(edges), options.missing_values)
        if not missing.any():
            continue
        what = f"The sensitive column '{column}' is missing in {missing.sum():,} of {frame.height:,} rows"
        if options.missing_sensitive == "error":
            raise GlocalfairError(
                f'{what} ({row_list(missing)}). Fill them in, or set missing_sensitive to "group" or "drop".'
            )
        if options.missing_sensitive == "drop":
            used = used & ~missing
            notes.append(f"{what} ({row_list(missing)}): left out.")
        else:
            notes.append(f"{what} ({row_list(missing)}): they form the group '{MISSING}'.")
    return used, notes


def _inputs(frame: pl.DataFrame, options: FrameOptions, sensitive: set[str]) -> list[kinds.Inferred]:
    """Look at every column that could be an input."""
    left_out = {options.label, options.client, *options.drop}
    found = []
    for column in frame.columns:
        first = original(column)
        if column in left_out or first in options.drop or (column in sensitive and not options.sensitive_as_input):
            continue
        if first != column and first in frame.columns and frame[first].equals(frame[column], check_names=False):
            found.append(kinds.Inferred(column, "copy", 0, 0, note=f"a second copy of '{first}'"))
            continue
        keep = column in options.keep or column in sensitive
        found.append(kinds.infer(frame[column], options.missing_values, options.max_categories, keep))
    dates = [each.name for each in found if each.kind == "date"]
    if dates and options.dates == "error":
        raise GlocalfairError(
            f"The column '{dates[0]}' is a date: turn it into a number, such as an age in years or days since an "
            "event, or leave it out with --drop."
        )
    return found


def _dataset(frame: pl.DataFrame, schema: FrameSchema, name: str) -> Dataset:
    inputs, _ = schema.read_inputs(frame, name)
    owner, owner_names = _owners(frame, schema)
    return dataclasses.replace(
        inputs,
        label=schema.read_label(frame).astype(np.int64),
        groups=schema.read_groups(frame),
        attributes=tuple(each.attribute for each in schema.sensitive),
        owner=owner,
        owner_names=owner_names,
    )


def _owners(frame: pl.DataFrame, schema: FrameSchema) -> tuple[npt.NDArray[np.int64] | None, tuple[str, ...]]:
    if schema.client is None:
        return None, ()
    strings = text(frame[schema.client], schema.missing_values).fill_null(MISSING)
    names, code = np.unique(strings.to_numpy().astype(str), return_inverse=True)
    if len(names) > max(frame.height // 2, 1):
        raise GlocalfairError(
            f"The client column '{schema.client}' has {len(names):,} values in {frame.height:,} rows: "
            "it names rows, not organisations."
        )
    return code.astype(np.int64), tuple(names.tolist())


def _without_leaks(
    frame: pl.DataFrame, options: FrameOptions, name: str, columns: list[str], dropped: int, notes: list[str]
) -> Prepared:
    if options.leaks == "error":
        raise GlocalfairError(
            f"The column '{columns[0]}' gives the label '{options.label}' away. Leave it out with --drop, "
            "or vouch for it with --keep."
        )
    rest = prepare(frame, dataclasses.replace(options, drop=(*options.drop, *columns)), name)
    told = f"Left out because they give the label '{options.label}' away: {', '.join(columns)}."
    profile = dataclasses.replace(
        rest.profile,
        dropped=dropped,
        # The rows were dealt with above; what `rest` says about missing groups is already among the notes.
        warnings=tuple(dict.fromkeys([*notes, told, *rest.profile.warnings])),
    )
    return rest._replace(profile=profile)


def _leak_notes(schema: FrameSchema, found: dict[str, float], options: FrameOptions) -> list[str]:
    notes = []
    for column, gain in found.items():
        if gain < SUSPICIOUS:
            continue
        how = "perfectly" if gain == 1 else f"almost perfectly ({100 * gain:.0f} % of the errors of a guess are gone)"
        notes.append(
            f"Leak? '{column}' alone predicts the label '{schema.label}' {how}: a copy of it, or known only "
            f"afterwards? Leave it out with --drop {_quoted(column)}."
        )
    good = [column for column, gain in found.items() if gain < SUSPICIOUS]
    if good:
        each = "Each of " if len(good) > 1 else ""
        notes.append(
            f"Too good? {each}{', '.join(good)} alone removes most errors of a guess. If it is known only after the "
            f"label, leave it out with --drop {' '.join(map(_quoted, good))}."
        )
    others = [c for c in schema.inputs if c not in found and c not in options.keep]
    sensitive = {each.column for each in schema.sensitive}
    named = [c for c in namesakes(schema.label, others) if c not in sensitive]
    if named:
        notes.append(
            f"Look at the names: {', '.join(named)}. If one is another model's output or known only after the label, "
            f"leave it out with --drop {' '.join(map(_quoted, named))}."
        )
    return notes


def _quoted(column: str) -> str:
    return column if column.replace("_", "").replace("-", "").isalnum() else f"'{column}'"


def _column_notes(found: Sequence[kinds.Inferred]) -> list[str]:
    notes = []
    for kind, what in _LEFT_OUT.items():
        names = [each.name or "(no name)" for each in found if each.kind == kind]
        if names:
            notes.append(f"Left out, {what}: {', '.join(names)}.")
    return notes + [f"Column '{each.name}': {each.note}." for each in found if each.used and each.note]


def _lines(
    dataset: Dataset, schema: FrameSchema, found: Sequence[kinds.Inferred], frame: pl.DataFrame
) -> tuple[Line, ...]:
    def counts(codes: Any, values: Sequence[str]) -> str:
        sizes = np.bincount(codes, minlength=len(values))
        shown = ", ".join(f"{value} {size:,}" for value, size in zip(values[:6], sizes, strict=False))
        return shown + (f" … {len(values)} values" if len(values) > 6 else "")

    def missing(column: str) -> int:
        return int(text(frame[column], schema.missing_values).null_count())

    lines = [
        Line(schema.label, "label", 0, f"positive is '{schema.positive}': " + counts(dataset.label, _classes(schema)))
    ]
    for each, codes in zip(schema.sensitive, dataset.groups.T, strict=True):
        lines.append(Line(each.column, "sensitive", missing(each.column), counts(codes, each.values)))
    if schema.client is not None and dataset.owner is not None:
        lines.append(Line(schema.client, "client", missing(schema.client), counts(dataset.owner, dataset.owner_names)))
    lines += [Line(each.name, each.kind, each.missing, each.detail) for each in found if each.used]
    return (*lines, *(Line(each.name, "left out", each.missing, each.note) for each in found if not each.used))


def _classes(schema: FrameSchema) -> tuple[str, str]:
    return schema.negative, schema.positive
