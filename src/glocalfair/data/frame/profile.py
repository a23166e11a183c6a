"""What was found in a table, to be shown before anything is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Line:
    """A column: its role (label, sensitive, client, numeric, categorical, left out), missing values, and details."""

    name: str
    role: str
    missing: int
    detail: str


@dataclass(frozen=True)
class Profile:
    """A table as it was understood.

    Attributes
    ----------
    rows, dropped
        Rows that are used, and rows left out because their label or a sensitive value is missing.
    lines
        The columns.
    warnings
        What the user should look at, one line each.
    memory
        Bytes of the encoded inputs (float32) and of the table as read.
    """

    rows: int
    dropped: int
    lines: tuple[Line, ...]
    warnings: tuple[str, ...]
    memory: tuple[int, int]

    def render(self, width: int = 100) -> str:
        """Return a plain text table with the warnings below it."""
        lines = [("column", "role", "missing", "")]
        lines += [
            (each.name, each.role, f"{each.missing:,}" if each.missing else "", each.detail) for each in self.lines
        ]
        widths = [max(len(line[i]) for line in lines) for i in range(3)]
        widths[0] = min(widths[0], 30)
        table = [
            f"{_cut(a, widths[0]):<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip()
            for a, b, c, d in lines
        ]
        left_out = f" ({self.dropped:,} left out)" if self.dropped else ""
        encoded, read = self.memory
        total = f"{self.rows:,} rows{left_out}; {_size(encoded)} of memory as inputs, {_size(read)} as a table"
        return "\n".join([*(_cut(line, width) for line in table), total])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**asdict(self), "memory": {"inputs": self.memory[0], "table": self.memory[1]}}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Profile:
        """Undo `to_dict`."""
        return cls(
            rows=values["rows"],
            dropped=values["dropped"],
            lines=tuple(Line(**line) for line in values["lines"]),
            warnings=tuple(values["warnings"]),
            memory=(values["memory"]["inputs"], values["memory"]["table"]),
        )


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _size(count: int) -> str:
    """Write bytes for people.

    >>> _size(1500), _size(3_200_000)
    ('1.5 kB', '3.2 MB')
    """
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
