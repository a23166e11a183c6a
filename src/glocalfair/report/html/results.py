"""The result tables: a row for each method, the best of each column marked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glocalfair.report.html.arms import Arm
from glocalfair.report.html.markup import Html, tag
from glocalfair.report.text import at, figure

Path = tuple[str, ...]


@dataclass(frozen=True)
class Cell:
    """A figure and the small print below it; `value` is what the best is chosen by."""

    value: float | None
    main: str
    small: tuple[str, ...] = ()


def _overall(arm: Arm, path: Path) -> Cell:
    found = arm.overall(*path)
    if found.value is None:
        return Cell(None, "undefined")
    spread = f" ± {figure(found.spread)}" if found.spread is not None else ""
    ends = [] if found.spread is not None or found.low is None else [f"{figure(found.low)} to {figure(found.high)}"]
    return Cell(
        _judged(arm, "global", path, found.value),
        f"{figure(found.value)}{spread}",
        (*ends, *_floor(arm, "global", path)),
    )


def _floor(arm: Arm, part: str, path: Path) -> list[str]:
    floor, excess = arm.mean(part, "noise_floor", *path), arm.mean(part, "excess", *path)
    if floor is None:
        return []
    return [f"floor {figure(floor)}", f"excess {figure(excess)}"]


def _judged(arm: Arm, part: str, path: Path, value: float) -> float:
    """Judge a gap by its excess: test sets of different groups have different floors. Below its floor is no gap."""
    excess = arm.mean(part, "excess", *path)
    return value if excess is None else max(excess, 0.0)


def _local(arm: Arm, path: Path) -> Cell:
    if path == ("dis",):
        value = arm.mean("local", "dis")
        return Cell(value, figure(value, "undefined"))
    value, std = arm.mean("local", *path, "mean"), arm.mean("local", *path, "std")
    told = [at(run.result, ("local", *path)) for run in arm.runs]
    defined, clients = sum(int(t["defined"]) for t in told if t), sum(int(t["clients"]) for t in told if t)
    on = f"on {defined} of {clients}"
    if value is None:
        return Cell(None, "undefined", (on,))
    return Cell(
        _judged(arm, "local", path, value), f"{figure(value)} ± {figure(std)}", (on, *_floor(arm, "local", path))
    )


def _columns(arm: Arm, *extra: tuple[str, Path, int]) -> list[tuple[str, Path, int]]:
    """List heading, path and which way is better (0: neither)."""
    gaps: list[tuple[str, Path, int]] = [(f"EOD {a.name}", ("eod", a.name), -1) for a in arm.attributes]
    return [("accuracy", ("accuracy",), 1), *extra, *gaps, ("DP-Dis", ("dp_dis",), -1)]


def global_table(arms: Sequence[Arm]) -> Html:
    """Lay out the figures on the global test set."""
    columns = _columns(arms[0], ("positive rate", ("positive_rate",), 0))
    rows = arms[0].first.result["global"].get("examples")
    caption = f"Global: {rows:,} test rows that no client holds" if rows else "Global"
    return _table(caption, arms, columns, _overall)


def local_table(arms: Sequence[Arm]) -> Html:
    """Lay out the figures on the clients' own test rows."""
    columns = _columns(arms[0], ("DIS", ("dis",), -1))
    return _table("Local: mean ± std over clients, each on its own test rows", arms, columns, _local)


def _table(
    caption: str, arms: Sequence[Arm], columns: Sequence[tuple[str, Path, int]], cell: Callable[[Arm, Path], Cell]
) -> Html:
    cells = {(i, j): cell(arm, path) for i, arm in enumerate(arms) for j, (_, path, _) in enumerate(columns)}
    best = {j: _best(arms, [cells[i, j] for i in range(len(arms))], way) for j, (_, _, way) in enumerate(columns)}
    head = tag("tr", tag("th", "method", scope="col"), *(tag("th", name, scope="col") for name, _, _ in columns))
    body = []
    for i, arm in enumerate(arms):
        repeats = f"{len(arm.runs)} {arm.repeats}s" if len(arm.runs) > 1 else arm.first.which
        collapsed = tag("span", "collapsed", class_="flag") if arm.constant else None
        name = tag("th", tag("span", arm.label), tag("small", repeats), collapsed, scope="row")
        body.append(tag("tr", name, *(_td(cells[i, j], i in best[j]) for j in range(len(columns)))))
    return scrolling(tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body)), caption)


def _best(arms: Sequence[Arm], column: Sequence[Cell], way: int) -> set[int]:
    """Return the rows with the best figure; a collapsed model is never best, nor one without a rival."""
    found = {i: c.value for i, c in enumerate(column) if c.value is not None and not arms[i].constant}
    if way == 0 or len(arms) < 2 or not found:
        return set()
    # What reads the same in the table is equally good.
    top = max(way * round(value, 3) for value in found.values())
    return {i for i, value in found.items() if way * round(value, 3) == top}


def _td(cell: Cell, best: bool) -> Html:
    # Not by colour alone: the mark is seen in grey and heard by a screen reader.
    mark = tag("span", "★", tag("span", " best", class_="unseen"), class_="star") if best else None
    main = tag("span", mark, cell.main, class_="main")
    return tag("td", main, *(tag("small", text) for text in cell.small), class_="best" if best else None)


def scrolling(table: Html, name: str) -> Html:
    """Let a wide table scroll inside its own box, by keyboard too."""
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=name)
