"""Figures of the result: what was measured, what was to be reached, what was reached."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

_ALIKE = 0.02
"""Wall time that differs by less than this part from CPU time is not told apart."""


@dataclass(frozen=True)
class Line:
    """One figure: a cell in the table of its part, in the row of what was measured and the column of its case.

    Without a target it is there to be read. `wall` is the same in wall time, where it is of CPU seconds; `turns` are
    the figures of single turns, if there were several.
    """

    part: str
    what: str
    case: str
    value: float
    unit: str = "×"
    target: float | None = None
    better: Literal["more", "less"] = "more"
    wall: float | None = None
    turns: tuple[float, ...] = ()

    def __str__(self) -> str:
        """Return one line of text, to be read while the measurement goes on."""
        return f"{self.part} | {self.what} | {self.case} | {self.cell}"

    @property
    def verdict(self) -> str:
        """Return "yes" or "no", or nothing without a target."""
        if self.target is None:
            return ""
        return "yes" if (self.value >= self.target if self.better == "more" else self.value <= self.target) else "no"

    @property
    def asked(self) -> str:
        """Return the target in words, or nothing without one."""
        return "" if self.target is None else f"{'≥' if self.better == 'more' else '≤'} {self.target:g}"

    @property
    def cell(self) -> str:
        """Return the figure with its target, and in short how it looks otherwise."""
        text = f"{figure(self.value)} {self.unit}".strip()
        if self.target is not None:
            text += f" ({self.asked}: {self.verdict})"
        if len(self.turns) > 1:
            text += f", {figure(min(self.turns))} to {figure(max(self.turns))}"
        if self.wall is not None and abs(self.wall / self.value - 1) > _ALIKE:
            text += f", wall {figure(self.wall)}"
        return text


def figure(value: float) -> str:
    """Write a number with three digits.

    >>> figure(0.0014234), figure(12.345), figure(1599.4)
    ('0.00142', '12.3', '1,599')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def middle(results: Sequence[dict[str, Any]], key: str = "cpu") -> float:
    """Return the median over repetitions."""
    return statistics.median(float(result[key]) for result in results)


def ratios(slow: Sequence[dict[str, Any]], fast: Sequence[dict[str, Any]], key: str = "cpu") -> tuple[float, ...]:
    """Return the ratio within each repetition: what disturbs the machine disturbs both alike."""
    return tuple(float(s[key]) / float(f[key]) for s, f in zip(slow, fast, strict=True))


def ratio(slow: Sequence[dict[str, Any]], fast: Sequence[dict[str, Any]], key: str = "cpu") -> float:
    """Return the median of the `ratios`."""
    return statistics.median(ratios(slow, fast, key))


def compared(
    part: str,
    what: str,
    case: str,
    slow: Sequence[dict[str, Any]],
    fast: Sequence[dict[str, Any]],
    target: float | None = None,
    better: Literal["more", "less"] = "more",
) -> Line:
    """Write the ratio in CPU seconds, of single turns too, and in wall time."""
    wall = ratio(slow, fast, "wall")
    return Line(part, what, case, ratio(slow, fast), "×", target, better, wall, ratios(slow, fast))


def took(part: str, what: str, case: str, results: Sequence[dict[str, Any]]) -> Line:
    """Write the CPU time of a round."""
    return Line(part, what, case, 1000 * middle(results), "ms", wall=1000 * middle(results, "wall"))


def markdown(lines: Sequence[Line]) -> str:
    """Return a table for each part as Markdown, in columns that line up for people too, and how many targets hold."""
    parts: dict[str, list[Line]] = {}
    for line in lines:
        parts.setdefault(line.part, []).append(line)
    return "\n".join([*(f"### {name}\n\n{_table(found)}" for name, found in parts.items()), summary(lines)])


def _table(lines: Sequence[Line]) -> str:
    cells = {(line.what, line.case): line.cell for line in lines}
    rows, columns = (dict.fromkeys(key[axis] for key in cells) for axis in (0, 1))
    text = [["", *columns], *([row, *(cells.get((row, column), "") for column in columns)] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*text, strict=True)]
    written = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in text]
    written.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(written) + "\n"


def summary(lines: Sequence[Line]) -> str:
    """Say how many targets were reached, and name the others.

    >>> summary([Line("1", "speed", "few", 3.0, target=2), Line("1", "speed", "many", 1.0, target=2)])
    '1 of 2 targets reached. Not reached: speed, many (1 of ≥ 2 ×).\\n'
    """
    asked = [line for line in lines if line.target is not None]
    missed = [
        f"{line.what}, {line.case} ({f'{figure(line.value)} of {line.asked} {line.unit}'.strip()})"
        for line in asked
        if line.verdict == "no"
    ]
    text = f"{len(asked) - len(missed)} of {len(asked)} targets reached."
    return text + (f" Not reached: {'; '.join(missed)}." if missed else "") + "\n"
