"""An audit as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from glocalfair.audit import Audit, Sheet
from glocalfair.report.text import at, figure, label, span

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b;"
    "background:#fff}h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse;"
    "display:block;overflow-x:auto}th,td{padding:.25rem .75rem;text-align:right;border-bottom:1px solid #ddd}"
    "th:first-child,td:first-child{text-align:left}.warning{border-left:4px solid #b35900;padding-left:.75rem}"
    "@media (prefers-color-scheme:dark){body{background:#161616;color:#eee}th,td{border-color:#444}}"
)
_GLOBAL = ("accuracy", "balanced_accuracy", "positive_rate", "eod", "dpd", "dp_dis")


def page(audit: Audit, title: str) -> str:
    """Return the page."""
    overall, local = audit.result["global"], audit.result["local"]
    parts = [f"<h1>{escape(title)}</h1>", f"<p>{overall['examples']:,} rows; positive is “{escape(audit.positive)}”"]
    parts += [f", a score of {audit.threshold:g} or more.</p>" if audit.threshold is not None else ".</p>"]
    parts += [f'<p class="warning">{escape(line)}</p>' for line in audit.warnings]
    parts += ["<h2>What is worst</h2><ul>", *(f"<li>{escape(line)}</li>" for line in audit.sentences()), "</ul>"]
    header = ("", "value", "95 % interval", "noise floor", "excess")
    rows = [
        (
            _name(p),
            at(overall, p),
            span(at(overall["intervals"], p)),
            at(overall["noise_floor"], p),
            at(overall["excess"], p),
        )
        for p in _paths(overall)
    ]
    parts.append(_table(Sheet("Over everybody", header, tuple(rows))))
    if len(audit.clients) > 1:
        spread = [(p, at(local, p)) for p in _paths(local)]
        means = [(_name(p), s["mean"], s["std"], f"{s['defined']} of {s['clients']}") for p, s in spread]
        parts.append(_table(Sheet("Inside the clients", ("", "mean", "std", "defined on"), tuple(means))))
    parts += [_table(sheet) for sheet in audit.sheets()]
    parts.append(
        "<p>Noise floor: what a perfectly fair model would show on so few rows. Excess: what is left above it.</p>"
    )
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _paths(part: Any) -> Iterable[tuple[str, ...]]:
    for name in _GLOBAL:
        value = part[name]
        nested = isinstance(value, dict) and "mean" not in value
        yield from ((name, key) for key in value) if nested else ((name,),)


def _name(path: Sequence[str]) -> str:
    return " ".join([label(path[0]), *path[1:]])


def _table(sheet: Sheet) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in sheet.header)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell(value))}</td>" for value in row) + "</tr>" for row in sheet.rows)
    return f"<h2>{escape(sheet.title)}</h2><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def cell(value: Any) -> str:
    """Write a cell: words as they are, counts with separators, figures with three decimals.

    >>> cell("F"), cell(1200), cell(0.25), cell(float("nan"))
    ('F', '1,200', '.250', '–')
    """
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else figure(value)
