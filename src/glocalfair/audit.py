"""How fair are these predictions? Any model's, from a table with labels, predictions and groups; nothing is trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from glocalfair import audit_measures as measures
from glocalfair.data.frame import sensitive as groups
from glocalfair.data.frame.label import classes, plain
from glocalfair.data.frame.options import MISSING_VALUES
from glocalfair.data.frame.reading import as_polars
from glocalfair.data.frame.schema import FrameSchema
from glocalfair.data.frame.values import MISSING, numbers, readable, row_list, text
from glocalfair.errors import GlocalfairError, invalid, unknown
from glocalfair.metrics import (
    summarise,
    tables,
)
from glocalfair.types import Ints

if TYPE_CHECKING:
    import polars as pl


class Sheet(NamedTuple):
    """A titled table of an audit: its headings and its rows, figures as numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, eq=False)
class Audit:
    """The report on a set of predictions.

    Attributes
    ----------
    result
        Every metric, global and local, as `glocalfair.metrics.summarise` lays them out.
    groups
        For each attribute its groups: rows, base rate, positive rate, TPR, FPR, accuracy.
    clients
        For each client: rows, accuracy, and for each attribute the EOD, its interval and its worst pair.
    worst
        Which group, which client and which pair is worst, for each attribute.
    sweep
        Accuracy, EOD and DPD by threshold; empty for hard predictions.
    threshold
        Scores at or above it were taken as positive; None for hard predictions.
    positive
        The positive label.
    warnings
        Rows that were left out, and groups that are too small.
    """

    result: Mapping[str, Any]
    groups: Mapping[str, Sequence[Mapping[str, Any]]]
    clients: Sequence[Mapping[str, Any]]
    worst: Mapping[str, Mapping[str, Any]]
    sweep: Sequence[Mapping[str, Any]]
    threshold: float | None
    positive: str
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            **{f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "result"},
            **self.result,
        }

    def sheets(self) -> list[Sheet]:
        """Return the tables beyond those of a run: groups, clients and thresholds."""
        found = [
            Sheet(
                f"Groups of {name}",
                ("group", "rows", "base rate", "positive rate", "TPR", "FPR", "accuracy"),
                tuple(tuple(row.values()) for row in rows),
            )
            for name, rows in self.groups.items()
        ]
        names = tuple(self.groups)
        if len(self.clients) > 1:
            order = sorted(self.clients, key=lambda row: -_largest([row["eod"][n] for n in names]))
            header = ("client", "rows", "accuracy", *(f"EOD {name}" for name in names))
            rows = tuple((r["client"], r["rows"], r["accuracy"], *(r["eod"][n] for n in names)) for r in order)
            found.append(Sheet("Clients, the widest gap first", header, rows))
        if self.sweep:
            header = ("threshold", "accuracy", *(f"{what} {n}" for n in names for what in ("EOD", "DPD")))
            rows = tuple(
                (r["threshold"], r["accuracy"], *(r[what][n] for n in names for what in ("eod", "dpd")))
                for r in self.sweep
            )
            found.append(Sheet("Thresholds", header, rows))
        return found

    def sentences(self) -> list[str]:
        """Say for each attribute which pair, group and client is worst."""
        found = []
        for name, worst in self.worst.items():
            pair, group, client = worst["pair"], worst["group"], worst["client"]
            if pair:
                low, high = pair["groups"]
                found.append(f"{name}: {pair['rate']} is {pair['gap']:.3f} lower for {low} than for {high}.")
            if group:
                side = "above" if group["distance"] > 0 else "below"
                found.append(
                    f"{name}: the group furthest from everybody is {group['group']}, "
                    f"{group['rate']} {abs(group['distance']):.3f} {side} the overall one."
                )
            if client and client["eod"] > 0:
                low, high = client["interval"]
                found.append(
                    f"{name}: the widest gap of a client is at {client['client']}, EOD {client['eod']:.3f} "
                    f"({low:.3f} to {high:.3f}) on {client['rows']:,} rows."
                )
        return found


def audit(
    frame: Any,
    *,
    label: str,
    prediction: str,
    sensitive: str | Sequence[str],
    client: str | None = None,
    positive: str | int | float | bool | None = None,
    threshold: float | None = None,
    seed: int = 0,
) -> Audit:
    """Measure predictions, over everybody and inside each client.

    Parameters
    ----------
    frame
        A polars or pandas frame, a mapping of columns, or the path of a CSV or Parquet file.
    label, prediction
        The true label and the prediction: the same two values, or a score (higher is more positive).
    sensitive
        Sensitive columns; ``"age:<40"`` makes groups of a number.
    client
        The column that names the organisation of a row.
    positive
        The positive label, if it is not obvious.
    threshold
        A score at or above it is positive; 0.5 if not given and the scores are between 0 and 1.
    seed
        Of bootstrap and noise floors.

    Examples
    --------
    >>> table = {"y": [1, 1, 0, 0] * 9, "p": [0.9, 0.2, 0.4, 0.1] * 9, "sex": ["F", "M"] * 18}
    >>> report = audit(table, label="y", prediction="p", sensitive="sex")
    >>> report.result["global"]["accuracy"], report.worst["sex"]["pair"]["groups"]
    (0.75, ['M', 'F'])
    """
    table = as_polars(frame)
    specs = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    table, warnings = _rows(table, label, prediction, specs, client)
    values = text(table[label], MISSING_VALUES).unique().to_list()
    negative, chosen = classes(label, values, positive)
    schema = FrameSchema(
        label, negative, chosen, tuple(groups.infer(spec, table, MISSING_VALUES, "group") for spec in specs), client
    )
    y = schema.read_label(table)
    hard, scores, threshold = _predictions(table[prediction], schema, threshold)
    owner, names = _clients(table, client)
    attributes = tuple(each.attribute for each in schema.sensitive)
    codes = schema.read_groups(table)
    found = tables(y, hard, codes, attributes, owner, len(names))
    clients = measures.client_rows(found, names, seed)
    return Audit(
        result=summarise(found, found, names, seed=seed),
        groups={each.name: measures.group_rows(found, each.name, each.values) for each in attributes},
        clients=clients,
        worst={each.name: measures.worst(found, each.name, each.values, clients) for each in found.reported},
        sweep=[] if scores is None else measures.sweep(y, scores, codes, attributes, threshold),
        threshold=threshold,
        positive=chosen,
        warnings=(*warnings, *groups.few_rows(codes, attributes)),
    )


def _rows(
    table: pl.DataFrame, label: str, prediction: str, specs: tuple[str, ...], client: str | None
) -> tuple[pl.DataFrame, list[str]]:
    """Check the columns and leave out rows without label or prediction."""
    named = [("label column", label), ("prediction column", prediction)]
    for kind, column in named + ([("client column", client)] if client is not None else []):
        if column not in table.columns:
            raise unknown(kind, column, table.columns)
    if not specs:
        raise GlocalfairError("Which columns are sensitive? Give --sensitive COLUMN …")
    sensitive = [groups.parse(spec, table.columns)[0] for spec in specs]
    if len(set(sensitive)) < len(sensitive):
        raise invalid("sensitive", "columns, each once", list(specs))
    for column in (label, prediction, *sensitive, *([client] if client else [])):
        if not readable(table[column]):
            raise GlocalfairError(f"The column '{column}' holds {table[column].dtype}, not numbers or words.")
    warnings = []
    used = np.ones(table.height, dtype=np.bool_)
    for what, column in named:
        missing = text(table[column], MISSING_VALUES).is_null().to_numpy()
        if missing.any():
            where = f"'{column}' is missing in {missing.sum():,} of {table.height:,} rows ({row_list(missing)})"
            warnings.append(f"The {what} {where}: left out.")
            used &= ~missing
    if not used.any():
        raise GlocalfairError(f"No row has both a label '{label}' and a prediction '{prediction}'.")
    return table.filter(used), warnings


def _predictions(
    column: pl.Series, schema: FrameSchema, threshold: float | None
) -> tuple[Ints, npt.NDArray[np.float64] | None, float | None]:
    """Return hard predictions; for scores also the scores and the threshold."""
    strings = text(column, MISSING_VALUES)
    values = set(strings.unique().to_list())
    if values <= {schema.negative, schema.positive} and threshold is None:
        return (strings == schema.positive).to_numpy().astype(np.int64), None, None
    if len(values) <= 2 and values <= {"0", "1", "true", "false"} and threshold is None:
        return strings.is_in(["1", "true"]).to_numpy().astype(np.int64), None, None
    scores, bad = numbers(column, MISSING_VALUES)
    if bad or np.isnan(scores).any():
        strange = next((v for v in sorted(values) if not _is_number(v)), "")
        raise GlocalfairError(
            f"The prediction '{column.name}' must be a score, or '{schema.negative}' and '{schema.positive}' as in the "
            f"label. Got '{strange}' instead."
        )
    if threshold is None:
        if scores.min() < 0 or scores.max() > 1:
            raise GlocalfairError(
                f"The scores in '{column.name}' run from {scores.min():g} to {scores.max():g}. "
                "Say from where on they are positive, for instance --threshold 0."
            )
        threshold = 0.5
    # float32 scores are compared as what they stand for: 0.1 in the file is at the threshold 0.1.
    wide = column.cast(_float64(), strict=False).to_numpy() if column.dtype.is_numeric() else scores.astype(np.float64)
    return (wide >= threshold).astype(np.int64), wide, threshold


def _float64() -> Any:
    import polars as pl

    return pl.Float64


def _is_number(value: str) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except ValueError:
        return False


def _clients(table: pl.DataFrame, client: str | None) -> tuple[Ints | None, list[str]]:
    if client is None:
        return None, ["all"]
    strings = text(table[client], MISSING_VALUES).fill_null(MISSING)
    names, codes = np.unique(strings.to_numpy().astype(str), return_inverse=True)
    return codes, [plain(name) for name in names.tolist()]


def _largest(gaps: Sequence[float]) -> float:
    return max((gap for gap in gaps if not np.isnan(gap)), default=-1.0)
