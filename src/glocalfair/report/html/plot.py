"""A panel: axes, lines, dots and bars as SVG text. Colours are classes, so that the page can be light or dark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from glocalfair.report.html.markup import Html, join, tag

WIDTH, HEIGHT = 380, 260
COLOURS = 8
Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """A linear axis with its ticks."""

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]


def short(value: float) -> str:
    """Write a tick: as few digits as it needs.

    >>> short(0.25), short(0.5), short(3.0), short(-0.1), short(0.0)
    ('.25', '.5', '3', '−.1', '0')
    """
    text = f"{abs(value):.4f}".rstrip("0").rstrip(".")
    text = text[1:] if text.startswith("0.") else text
    return f"−{text}" if value < 0 and text not in ("0", "") else text or "0"


def axis(label: str, values: Iterable[float], low: float | None = None, high: float | None = None) -> Axis:
    """Make an axis that shows all values, with round ticks; `low` and `high` are ends that it must not pass."""
    found = [v for v in values if math.isfinite(v)]
    start, stop = (min(found), max(found)) if found else (0.0, 1.0)
    room = 0.06 * (stop - start) or max(abs(stop) * 0.1, 0.01)
    start, stop = start - room, stop + room
    start = start if low is None else max(start, low)
    stop = stop if high is None else min(stop, high)
    if stop <= start:
        start, stop = start - 0.01, stop + 0.01
    step = _step((stop - start) / 5)
    first, last = math.ceil(start / step - 1e-9), math.floor(stop / step + 1e-9)
    return Axis(label, start, stop, tuple((i * step, short(i * step)) for i in range(first, last + 1)))


def rounds_axis(last: int) -> Axis:
    """Make the axis of a run's rounds."""
    step = max(1, math.ceil(_step(max(last - 1, 1) / 5)))
    ticks = [1, *(t for t in range(step, last + 1, step) if t - 1 > (last - 1) / 12)]
    return Axis("round", 1, max(last, 2), tuple((float(t), str(t)) for t in ticks))


def _step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return float(next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999))


def style(number: int) -> str:
    """Return the class of a series: its colour."""
    return "sb" if number < 0 else f"s{number % COLOURS}"


def marker(number: int, x: float, y: float, r: float, **attributes: object) -> Html:
    """Draw a series' marker; the shapes tell series apart where colours do not."""
    shape = 0 if number < 0 else (number + 1) % 5
    a, b, c = round(1.3 * r, 1), round(1.2 * r, 1), round(2.1 * r, 1)
    d = {
        0: f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z",
        1: f"M{x:.1f} {y - a:.1f}l{a} {a}l{-a} {a}l{-a} {-a}z",
        2: f"M{x - r:.1f} {y - r:.1f}h{2 * r}v{2 * r}h{-2 * r}z",
        3: f"M{x:.1f} {y - b:.1f}l{b} {c}h{-2 * b}z",
        4: f"M{x:.1f} {y + b:.1f}l{b} {-c}h{-2 * b}z",
    }[shape]
    return tag("path", d=d, **attributes)


@dataclass
class Panel:
    """One pair of axes; parts are added and drawn in their order."""

    title: str
    x: Axis
    y: Axis
    width: int = WIDTH
    height: int = HEIGHT
    left: int = 44
    right: int = 14
    top: int = 34
    bottom: int = 42
    subtitle: str = ""
    parts: list[Html] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.subtitle:
            self.top += 16

    def px(self, value: float) -> float:
        """Return the horizontal place of a value."""
        share = (value - self.x.low) / (self.x.high - self.x.low)
        return self.left + share * (self.width - self.left - self.right)

    def py(self, value: float) -> float:
        """Return the vertical place of a value."""
        share = (value - self.y.low) / (self.y.high - self.y.low)
        return self.height - self.bottom - share * (self.height - self.top - self.bottom)

    def curve(
        self, points: Sequence[Point], number: int, tips: dict[int, str], *, r: float = 2.2, series: str | None = None
    ) -> None:
        """Join points by a line and mark those that have something to tell; all of it is one series."""
        d = "M" + "L".join(f"{self.px(x):.1f} {self.py(y):.1f}" for x, y in points)
        parts = [tag("path", d=d, class_="line")] if len(points) > 1 else []
        for index, text in tips.items():
            x, y = points[index]
            parts.append(marker(number, self.px(x), self.py(y), r, class_="dot", data_tip=text))
        self.parts.append(tag("g", *parts, class_=style(number), data_s=series))

    def area(
        self, upper: Sequence[Point], lower: Sequence[Point], number: int, *, series: str | None, aside: bool = False
    ) -> None:
        """Fill the space between two lines; `aside`: only while the series is chosen."""
        if len(upper) < 2:
            return
        held = [(x, min(max(y, self.y.low), self.y.high)) for x, y in [*upper, *reversed(lower)]]
        d = "M" + "L".join(f"{self.px(x):.1f} {self.py(y):.1f}" for x, y in held) + "z"
        kind = f"area {style(number)}{' aside' if aside else ''}"
        self.parts.append(tag("path", d=d, class_=kind, data_s=series))

    def dot(self, at: Point, number: int, tip: str, *, r: float = 3.0, kind: str = "dot") -> None:
        """Draw a point that tells its values."""
        drawn = marker(number, self.px(at[0]), self.py(at[1]), r, class_=f"{kind} {style(number)}", data_tip=tip)
        self.parts.append(drawn)

    def diagonal(self) -> None:
        """Draw a dashed line from corner to corner."""
        x, y = self.x, self.y
        d = f"M{self.px(x.low):.1f} {self.py(y.low):.1f}L{self.px(x.high):.1f} {self.py(y.high):.1f}"
        self.parts.append(tag("path", d=d, class_="rule dash"))

    def rule(self, *, x: float | None = None, y: float | None = None, kind: str = "rule") -> None:
        """Draw a line right across, at a value that means something."""
        if x is not None:
            place = f"M{self.px(x):.1f} {self.top}V{self.height - self.bottom}"
        else:
            assert y is not None
            place = f"M{self.left} {self.py(y):.1f}H{self.width - self.right}"
        self.parts.append(tag("path", d=place, class_=kind))

    def note(self, x: float, text: str) -> None:
        """Name a vertical rule, beside its upper end."""
        left = self.px(x) > (self.left + self.width - self.right) / 2
        place = self.px(x) + (-5 if left else 5)
        kind = f"tick halo{' end' if left else ''}"
        self.parts.append(tag("text", text, x=f"{place:.1f}", y=self.top + 10, class_=kind))

    def bar(self, *, low: Point, high: Point, number: int) -> None:
        """Draw an error bar between two points."""
        d = f"M{self.px(low[0]):.1f} {self.py(low[1]):.1f}L{self.px(high[0]):.1f} {self.py(high[1]):.1f}"
        self.parts.append(tag("path", d=d, class_=f"bar {style(number)}"))

    def svg(self, description: str) -> Html:
        """Return the panel; the description is for those who do not see it."""
        return drawing(self.width, self.height, self.title, description, self._heading(), self._grid(), *self.parts)

    def _heading(self) -> Html:
        small = tag("text", self.subtitle, x=2, y=32, class_="sub") if self.subtitle else None
        return join(tag("text", self.title, x=2, y=15, class_="head"), small)

    def _grid(self) -> Html:
        bottom, right = self.height - self.bottom, self.width - self.right
        lines = [f"M{self.left} {self.py(v):.1f}H{right}" for v, _ in self.y.ticks]
        parts = [tag("path", d="".join(lines), class_="grid")] if lines else []
        parts.append(tag("path", d=f"M{self.left} {bottom}H{right}", class_="base"))
        parts += [tag("text", t, x=f"{self.px(v):.1f}", y=bottom + 16, class_="tick mid") for v, t in self.x.ticks]
        parts += [
            tag("text", t, x=self.left - 7, y=f"{self.py(v) + 4:.1f}", class_="tick end") for v, t in self.y.ticks
        ]
        middle = (self.left + right) / 2
        parts.append(tag("text", self.x.label, x=middle, y=bottom + 34, class_="label mid"))
        if self.y.label:
            place = f"translate(11 {(self.top + bottom) / 2:.0f}) rotate(-90)"
            parts.append(tag("text", self.y.label, transform=place, class_="label mid"))
        return join(*parts)


def drawing(width: float, height: float, title: str, description: str, *parts: object) -> Html:
    """Return an SVG image with its title and description."""
    return tag(
        "svg",
        tag("title", title),
        tag("desc", description),
        *parts,
        class_="panel",
        viewBox=f"0 0 {width:g} {height:g}",
        width=f"{width:g}",
        height=f"{height:g}",
        role="group",
        aria_label=f"{title}. {description}",
    )


Entry = tuple[str, int, str | None]
"""A line of the legend: the name of a series, the number of its style, and its name in the page's select."""


def legend_size(entry: Entry) -> float:
    """Return about how wide an entry is."""
    return 30 + 6.7 * len(entry[0])


def legend_entry(entry: Entry, x: float = 0.0, y: float = 0.0) -> Html:
    """Draw the name of a series beside its marker."""
    name, number, series = entry
    sign = marker(number, x + 7, y + 9, 4, class_=f"key {style(number)}")
    return tag("g", sign, tag("text", name, x=f"{x + 17:g}", y=f"{y + 13:g}", class_="name"), data_s=series)


def legend(entries: Sequence[Entry], width: float) -> Html:
    """Draw all entries in as many lines as they need."""
    x, y, parts = 0.0, 0.0, []
    for entry in entries:
        room = legend_size(entry)
        if x and x + room > width:
            x, y = 0.0, y + 20
        parts.append(legend_entry(entry, x, y))
        x += room
    return drawing(width, y + 20, "Legend", ", ".join(name for name, _, _ in entries), *parts)


def thinned(number: int, most: int) -> list[int]:
    """Return at most so many of the indices 0 … number − 1, evenly spread, with both ends."""
    if number <= most:
        return list(range(number))
    return sorted({round(i * (number - 1) / (most - 1)) for i in range(most)})


def tip(*lines: object) -> str:
    """Put the lines of a tooltip together."""
    return "\n".join(str(line) for line in lines)
