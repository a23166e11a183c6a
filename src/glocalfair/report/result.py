"""The final tables of a run, from its result alone: as returned in memory, or as read from ``result.json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from glocalfair.privacy.words import guarantee
from glocalfair.report.rounds import round_tables
from glocalfair.report.tables import plain_table, titled
from glocalfair.report.text import at, figure, is_defined, label, plural, span

OVERALL = ("accuracy", "balanced_accuracy", "positive_rate")
FAIR = ("eod", "dpd", "dp_dis")


def final_report(result: Mapping[str, Any], last_round: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Give everything that is printed after a run, top to bottom."""
    overall, local = result["global"], result["local"]
    parts: list[RenderableType] = [*round_tables(last_round), global_table(overall), *worst_pairs(overall)]
    for part in [*parts, local_table(local), *privacy_text(result), *notes(result)]:
        yield part
        yield Text("")
    done = f"{plural(result['rounds'], 'round')} of {result['method']} in {result['seconds']:.1f} s"
    yield Text(f"{done}. Run directory: {result['run_dir']}")


def _paths(part: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Give the paths of the figures shown: ``("accuracy",)``, ``("eod", "sex")`` …"""
    for name in (*OVERALL, *FAIR):
        value = part.get(name)
        if isinstance(value, Mapping) and "mean" not in value:
            yield from ((name, attribute) for attribute in value)
        else:
            yield (name,)


def _heading(path: tuple[str, ...]) -> str:
    return " ".join([label(path[0]), *path[1:]])


def global_table(part: Mapping[str, Any]) -> Group:
    """Lay out ``result["global"]``: each figure with interval, noise floor and excess."""
    table = plain_table("", "value", "95 % interval", "noise floor", "excess")
    for path in _paths(part):
        floor, excess = at(part["noise_floor"], path), at(part["excess"], path)
        gap = path[0] in FAIR
        table.add_row(
            _heading(path),
            figure(at(part, path), "undefined"),
            span(at(part["intervals"], path)),
            figure(floor) if gap else "",
            figure(excess) if gap else "",
        )
        if path == (OVERALL[-1],):
            table.add_section()
    return titled(f"Global: {plural(part['examples'], 'test row')} that no client holds", table)


def worst_pairs(part: Mapping[str, Any]) -> Iterator[Text]:
    """Name for each attribute the two groups that are furthest apart, in one text or none."""
    pairs = {name: pair for name, pair in part["worst_pair"].items() if pair}
    if not pairs:
        return
    width = max(map(len, pairs))
    lines = Text("Widest gap (of TPR and FPR)", style="bold")
    for name, pair in pairs.items():
        low, high = pair["groups"]
        line = f"\n{name:<{width}}  {pair['rate']} is {figure(pair['gap'])} lower for {low} than for {high}"
        lines.append(line, style="not bold")
    yield lines


def local_table(part: Mapping[str, Any]) -> Group:
    """Lay out ``result["local"]``: mean and spread over the clients, and on how many a figure exists."""
    clients = part["accuracy"]["clients"]
    table = plain_table("", "mean ± std", "defined on", "noise floor", "excess")
    for path in _paths(part):
        spread = at(part, path)
        gap = path[0] in FAIR
        mean = figure(spread["mean"], "undefined")
        table.add_row(
            _heading(path),
            f"{mean} ± {figure(spread['std'])}" if is_defined(spread["mean"]) else mean,
            f"{spread['defined']} of {plural(clients, 'client')}",
            figure(at(part["noise_floor"], path)) if gap else "",
            figure(at(part["excess"], path)) if gap else "",
        )
        if path == (OVERALL[-1],):
            table.add_row("DIS", figure(part["dis"], "undefined"), "", "", "")
            table.add_section()
    return titled(f"Local: {plural(clients, 'client')}, each on its own test rows", table)


def privacy_text(result: Mapping[str, Any]) -> Iterator[Text]:
    """Say what a client is promised, if updates were changed for its privacy."""
    if "privacy" in result:
        text = Text("Privacy of updates", style="bold")
        yield text.append("".join(f"\n{line}." for line in guarantee(result["privacy"])), style="not bold")


def notes(result: Mapping[str, Any]) -> Iterator[Text]:
    """Say what a reader of the tables must not overlook, and what its words mean."""
    overall, local = result["global"], result["local"]
    if "diverged" in result:
        yield Text(f"Warning: {result['diverged']['message']}", style="bold red")
    if overall["constant"]:
        yield Text(
            f"Warning: the model has collapsed. It gives everybody the same answer (positive rate "
            f"{figure(overall['positive_rate'])}), so its gaps are 0 without being fair.",
            style="bold red",
        )
    lines = [
        "Noise floor: what a perfectly fair model would show on so few rows. Excess: what is left above it.",
        "DIS: accuracy of the best client minus that of the worst.",
    ]
    numbers = [at(local, path)["defined"] for path in _paths(local) if path[0] == "eod"]
    if numbers and min(numbers) < local["accuracy"]["clients"]:
        lines.append("A client has a gap if it holds two groups, and an EOD if both have positives and negatives.")
    yield Text("\n".join(lines), style="dim")
