"""What the models look at: heat maps side by side and the share of heat in named regions.

Drawn for runs that ``glocalfair heat`` has looked into.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from glocalfair.errors import GlocalfairError
from glocalfair.report.html.arms import Arm
from glocalfair.report.html.charts.chart import Chart, Choice, Data, View, shown
from glocalfair.report.html.markup import Html, join, tag
from glocalfair.report.html.plot import drawing
from glocalfair.report.text import figure

FILE = "heat.json"
_SIDE, _GAP, _TOP, _LEFT = 96, 6, 24, 150
Told = Mapping[str, Any]


def chart(arms: Sequence[Arm]) -> Chart | None:
    """Draw the pictures and, for each attribute, the table of shares."""
    found = [(shown(arm), told) for arm in arms if (told := _read(arm)) is not None]
    if not found:
        return None
    rows = [[example["row"] for example in told["examples"]] for _, told in found]
    # Only what was looked at together can stand side by side.
    found = [each for each, mine in zip(found, rows, strict=True) if mine == rows[0]]
    attributes = list(found[0][1]["differences"])
    panel = _pictures(found)
    keys: list[tuple[int, ...]] = [(i,) for i in range(len(attributes))] or [()]
    views = [View(key, (panel,), _table(found, name)) for key, name in zip(keys, attributes or [""], strict=True)]
    return Chart(
        id="heat",
        short="Heat maps",
        title="What the models look at",
        text="Grad-CAM: where in a test picture the evidence for the model's prediction lies (blue, yellow, red). The "
        "table below has the share of heat in each region over many test pictures, and how much it differs between "
        "groups, with a 95 % interval.",
        choices=(Choice("Groups", tuple(attributes)),) if attributes else (),
        views=tuple(views),
    )


def _read(arm: Arm) -> Told | None:
    for run in arm.runs:
        path = run.path / FILE
        if path.exists():
            try:
                told: Told = json.loads(path.read_text(encoding="utf-8"))
                return told if told["examples"] and "shares" in told else None
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise GlocalfairError(f"'{path}' is broken: {error}. Make it again with: glocalfair heat") from error
    return None


def _pictures(found: Sequence[tuple[str, Told]]) -> Html:
    columns = ["picture", *(name for name, _ in found)]
    examples = list(zip(*(told["examples"] for _, told in found), strict=True))
    step = _SIDE + _GAP
    parts = [
        tag("text", name, x=_LEFT + i * step + _SIDE / 2, y=15, class_="tick mid") for i, name in enumerate(columns)
    ]
    for line, same in enumerate(examples):
        y = _TOP + line * step
        told = [f"label {same[0]['label']}", *same[0]["groups"].values()]
        parts += [tag("text", word, x=2, y=y + 20 + 16 * i, class_="tick") for i, word in enumerate(told)]
        images = [("the picture", same[0]["picture"], None)]
        images += [(name, each["overlay"], each["probability"]) for (name, _), each in zip(found, same, strict=True)]
        for i, (name, content, probability) in enumerate(images):
            said = name if probability is None else f"{name}: probability {figure(probability)}"
            parts.append(_image(_LEFT + i * step, y, content, said))
    return drawing(
        _LEFT + len(columns) * step,
        _TOP + len(examples) * step,
        "Heat maps",
        f"{len(examples)} test pictures, each with the heat map of {len(found)} models",
        *parts,
    )


def _image(x: float, y: float, content: str, said: str) -> Html:
    # Letters of base64 only: what stands in a file from somewhere else must not become markup or an address.
    clean = "".join(c for c in str(content) if c.isascii() and (c.isalnum() or c in "+/="))
    href = f"data:image/png;base64,{clean}"
    return tag("image", join(tag("title", said)), href=href, x=x, y=y, width=_SIDE, height=_SIDE, data_tip=said)


def _table(found: Sequence[tuple[str, Told]], attribute: str) -> Data:
    rows = []
    for name, told in found:
        for region, share in told["shares"].items():
            gap = told["differences"].get(attribute, {}).get(region, {})
            ends = gap.get("interval")
            between = " − ".join(gap.get("groups", ()))
            interval = f"{figure(ends[0])} to {figure(ends[1])}" if ends else "–"
            rows.append((name, region, figure(share), between, figure(gap.get("difference")), interval))
    return Data(("method", "region", "share of heat", "groups", "difference", "95 % interval"), tuple(rows))
