"""The last part of the page: what leaves a client, the settings, how to do it again, and the versions."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from glocalfair import __version__
from glocalfair.errors import GlocalfairError
from glocalfair.report.html.arms import Arm
from glocalfair.report.html.load import Run
from glocalfair.report.html.markup import Html, join, tag
from glocalfair.report.html.results import scrolling


def disclosures(arms: Sequence[Arm]) -> Html:
    """Lay out what each method sends, as it declares it for these very settings."""
    rows = []
    for run in {_settings(arm.first): arm.first for arm in arms}.values():
        summary, sent = _declared(run)
        items = tag("ul", *(tag("li", text) for text in sent))
        rows.append(tag("tr", tag("th", run.method, scope="row"), tag("td", summary), tag("td", items)))
    head = tag("tr", *(tag("th", name, scope="col") for name in ("method", "what it does", "what leaves a client")))
    caption = "What each method discloses"
    table = tag(
        "table", tag("caption", caption, class_="unseen"), tag("thead", head), tag("tbody", *rows), class_="prose"
    )
    return scrolling(table, caption)


def _settings(run: Run) -> tuple[str, tuple[str, ...]]:
    return run.method, _declared(run)[1]


def _declared(run: Run) -> tuple[str, tuple[str, ...]]:
    from glocalfair.registry import method

    try:
        settings = {k: v for k, v in run.config.get("method", {}).items() if k != "name"}
        found = method(run.method, settings, allow_import=False)
    except GlocalfairError:
        return "", ("unknown: this version of glocalfair does not have the method with these settings",)
    return found.summary, tuple(f"{d.text} (once)" if d.once else d.text for d in found.discloses())


def reproduce(arms: Sequence[Arm], command: str) -> Html:
    """Give the configuration of each method, the command that repeats it, and the one that made this page."""
    parts: list[Html] = []
    for arm in arms:
        repeats = ", ".join(run.which for run in arm.runs)
        file = f"{arm.method}.toml"
        commands = "\n".join(f"glocalfair run {file} --seed {run.seed}{_fold(run)}" for run in arm.runs)
        took = sum(float(run.result.get("seconds") or 0) for run in arm.runs)
        parts.append(
            tag(
                "details",
                tag("summary", tag("b", arm.label), f" · {repeats} · {took:.0f} s"),
                tag("p", "Save this as ", tag("code", file), " and run:"),
                _pre(commands, f"Commands for {arm.label}"),
                _pre(arm.first.toml, f"Configuration of {arm.label}"),
            )
        )
    return join(*parts, tag("p", "This page was made by:"), _pre(command, "Command that made this page"))


def _fold(run: Run) -> str:
    return "" if run.fold is None else f" --set split.fold={run.fold}"


def _pre(text: str, name: str) -> Html:
    return tag("pre", tag("code", text), tabindex=0, role="region", aria_label=name)


def versions(arms: Sequence[Arm]) -> str:
    """Say with which versions the runs and the page were made."""
    found = {
        ", ".join(f"{name} {number}" for name, number in run.result["versions"].items())
        for arm in arms
        for run in arm.runs
        if run.result.get("versions")
    }
    page = f"Page: glocalfair {__version__}, Python {platform.python_version()}."
    return f"Runs: {'; or '.join(sorted(found))}. {page}" if found else page
