"""Lines of the result: what was measured, what was to be reached, what was reached."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Line:
    """One figure. Without a target it is there to be read; `wall` is the same in wall time, where it is CPU seconds."""

    part: str
    what: str
    value: float
    unit: str = "×"
    target: float | None = None
    better: Literal["more", "less"] = "more"
    note: str = ""
    wall: float | None = None

    @property
    def verdict(self) -> str:
        """Return "yes" or "no", or nothing without a target."""
        if self.target is None:
            return ""
        return "yes" if (self.value >= self.target if self.better == "more" else self.value <= self.target) else "no"

    def cells(self) -> list[str]:
        """Return the line as text."""
        sign = "≥" if self.better == "more" else "≤"
        target = "" if self.target is None else f"{sign} {self.target:g} {self.unit}"
        wall = "" if self.wall is None else f"{self.wall:.3g} {self.unit}"
        return [self.part, self.what, f"{self.value:.3g} {self.unit}", target, self.verdict, wall, self.note]


HEADER = ["", "measured", "reached", "target", "", "wall", "in detail"]


def middle(results: Sequence[dict[str, Any]], key: str = "cpu") -> float:
    """Return the median over repetitions."""
    return statistics.median(float(result[key]) for result in results)


def ratio(slow: Sequence[dict[str, Any]], fast: Sequence[dict[str, Any]], key: str = "cpu") -> float:
    """Return the median of the ratios within each repetition: what disturbs the machine disturbs both alike."""
    return statistics.median(float(s[key]) / float(f[key]) for s, f in zip(slow, fast, strict=True))


def compared(
    part: str,
    what: str,
    slow: Sequence[dict[str, Any]],
    fast: Sequence[dict[str, Any]],
    target: float | None = None,
    better: Literal["more", "less"] = "more",
    note: str = "",
) -> Line:
    """Write the ratio in CPU seconds and in wall time."""
    wall = ratio(slow, fast, "wall")
    return Line(part, what, ratio(slow, fast), target=target, better=better, note=note, wall=wall)


def span(slow: Sequence[dict[str, Any]], fast: Sequence[dict[str, Any]]) -> str:
    """Write the least and the largest of the ratios whose median `ratio` is, if there are several."""
    found = [float(s["cpu"]) / float(f["cpu"]) for s, f in zip(slow, fast, strict=True)]
    return f"{min(found):.1f} to {max(found):.1f}" if len(found) > 1 else ""


def markdown(lines: Sequence[Line]) -> str:
    """Return the table as Markdown, in columns that line up for people too."""
    rows = [HEADER, *(line.cells() for line in lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    text = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in rows]
    text.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(text) + "\n"
