"""Puts the page together: one file, nothing to load, no script but our own."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from importlib import resources

from glocalfair.report.html import about
from glocalfair.report.html.arms import Arm
from glocalfair.report.html.charts.chart import Chart, Choice, Data, View
from glocalfair.report.html.markup import Html, join, tag
from glocalfair.report.html.plot import drawing, legend_entry, legend_size
from glocalfair.report.html.results import global_table, local_table, scrolling
from glocalfair.report.html.verdict import COST, Verdict, judge
from glocalfair.report.text import figure, plural


def asset(name: str) -> str:
    """Read a file that ships beside this module."""
    return (resources.files("glocalfair.report.html") / "assets" / name).read_text(encoding="utf-8")


def file_style() -> str:
    """Return the figures' style for a file of its own: light colours, written out, since few tools know variables."""
    colours = dict(re.findall(r"(--[\w-]+):\s*([^;]+);", asset("page.css").split("}")[0]))
    return re.sub(r"var\((--[\w-]+)\)", lambda found: colours[found[1]], asset("chart.css"))


def render(arms: Sequence[Arm], charts: Sequence[Chart], title: str, command: str) -> str:
    """Return the whole page."""
    verdict = judge(arms)
    script = asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    sections = [
        ("results", "Results", "Results", _results(arms)),
        *((chart.id, chart.short, chart.title, figure_block(chart)) for chart in charts),
        ("discloses", "Disclosure", "What leaves a client", about.disclosures(arms)),
        ("reproduce", "Reproduce", "Do it again", about.reproduce(arms, command)),
    ]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html(asset("page.css") + asset("chart.css"))),
    )
    body = tag(
        "body",
        tag("a", "Skip to the verdict", href="#verdict", class_="skip"),
        _header(arms, title),
        _navigation([("verdict", "Verdict"), *((id_, name) for id_, name, *_ in sections)]),
        tag(
            "main", _verdict(verdict), *(_section(id_, name, content) for id_, _, name, content in sections), id="main"
        ),
        tag("footer", tag("p", about.versions(arms)), _glossary()),
        tag("div", id="tip", hidden=True, aria_hidden="true"),
        tag("script", Html(script)),
        data_figure_style=file_style(),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _header(arms: Sequence[Arm], title: str) -> Html:
    first = arms[0].first
    most = max(len(arm.runs) for arm in arms)
    methods = list(dict.fromkeys(arm.method for arm in arms))
    clients = first.result["local"]["accuracy"]["clients"]
    partition = first.config.get("partition", {}).get("name", "")
    facts = [
        ", ".join(methods) if len(methods) <= 3 else plural(len(methods), "method"),
        f"{plural(clients, 'client')} ({partition})" if partition else plural(clients, "client"),
    ]
    facts += [plural(first.result["rounds"], "round"), plural(most, arms[0].repeats)]
    button = tag("button", "Dark", id="theme", type="button", class_="quiet")
    return tag(
        "header", tag("div", tag("h1", title), button, class_="bar"), tag("p", " · ".join(facts), class_="facts")
    )


def _navigation(links: Sequence[tuple[str, str]]) -> Html:
    items = (tag("li", tag("a", name, href=f"#{id_}")) for id_, name in links)
    return tag("nav", tag("ul", *items), aria_label="Sections")


def _section(id_: str, title: str, content: Html) -> Html:
    return tag("section", tag("h2", title, id=f"{id_}-title"), content, id=id_, aria_labelledby=f"{id_}-title")


def _verdict(verdict: Verdict) -> Html:
    title = tag("h2", "Verdict", id="verdict-title", class_="unseen")
    lines = [
        join(tag("p", first, class_="lead"), tag("p", second, class_="second")) for first, second in verdict.headlines
    ]
    details = tag("ul", *(tag("li", text) for text in verdict.details), class_="details")
    care = None
    if verdict.warnings:
        items = tag("ul", *(tag("li", text) for text in verdict.warnings))
        care = tag("aside", tag("h3", "Read with care", id="care"), items, class_="care", aria_labelledby="care")
    content = join(title, *lines, _cards(verdict), details, care)
    return tag("section", content, id="verdict", aria_labelledby="verdict-title", tabindex=-1)


def _cards(verdict: Verdict) -> Html:
    subject, baseline = verdict.subject, verdict.baseline
    names = [a.name for a in subject.first.overall.attributes]
    wanted: list[tuple[str, tuple[str, ...], int]] = [("Accuracy", ("global", "accuracy"), 1)]
    wanted += [(f"EOD {name}", ("global", "eod", name), -1) for name in names]
    wanted += [(f"Local EOD {name}", ("local", "eod", name, "mean"), -1) for name in names]
    cards = []
    for name, path, way in wanted[:6]:
        value = subject.mean(*path)
        before = baseline.mean(*path) if baseline else None
        noise = max(subject.noise(*path), baseline.noise(*path)) if baseline else 0.0
        note = _change(value, before, way, max(noise, COST), baseline.label if baseline else "")
        cards.append(tag("div", tag("dt", name), tag("dd", tag("b", figure(value, "undefined")), note)))
    return join(tag("p", "In figures: ", tag("b", subject.label), class_="cards-of"), tag("dl", *cards, class_="cards"))


def _change(value: float | None, before: float | None, way: int, noise: float, label: str) -> Html | None:
    """Say whether a figure is better than before by more than its noise."""
    if before is None or value is None:
        return None
    gain = way * (value - before)
    kind, word = ("up", "better") if gain > noise else ("down", "worse") if gain < -noise else ("same", "within noise")
    return tag("span", f"{label} {figure(before)} ", tag("i", word, class_=kind))


def _results(arms: Sequence[Arm]) -> Html:
    several = any(len(arm.runs) > 1 for arm in arms)
    spread = (
        f"± is the standard deviation over {arms[0].repeats}s"
        if several
        else "Below each figure is its 95 % bootstrap interval"
    )
    best = "★ marks the best of each column; of gaps the smallest excess is best. " if len(arms) > 1 else ""
    note = (
        f"{best}{spread}. The floor is the gap that a perfectly fair model would show on "
        "test sets of this size; the excess is what is left above it. A gap that a client cannot have is left out, "
        "never counted as 0."
    )
    return join(global_table(arms), local_table(arms), tag("p", note, class_="note"))


def figure_block(chart: Chart) -> Html:
    """Write a figure: text, selects, its views (the first is shown) and a button to save it."""
    selects = [_select(chart.id, i, choice) for i, choice in enumerate(chart.choices)]
    if chart.highlight is not None:
        every = Choice(chart.highlight.name, ("all", *chart.highlight.options))
        selects.append(_select(chart.id, None, every))
    save = tag(
        "button", "Save as SVG", type="button", class_="quiet save", aria_label=f"Save figure as SVG: {chart.title}"
    )
    controls = tag("div", *selects, save, class_="controls")
    views = (_view(chart, view, i == 0) for i, view in enumerate(chart.views))
    return join(
        tag("p", chart.text),
        tag("figure", controls, *views, class_="chart", data_name=chart.id, aria_label=chart.title),
    )


def _select(id_: str, index: int | None, choice: Choice) -> Html:
    own = f"{id_}-{'series' if index is None else index}"
    # The value of a series is its name; of any other option its number in the views' keys.
    options = [
        tag("option", text, value=(text if i else "") if index is None else i) for i, text in enumerate(choice.options)
    ]
    select = tag("select", *options, id=own, data_choice=index, data_series=True if index is None else None)
    return tag("label", tag("span", choice.name), select, for_=own)


def _view(chart: Chart, view: View, first: bool) -> Html:
    # One wide panel keeps its own width; several share the line.
    kind = "panels" if len(view.panels) > 1 else "panels one"
    note = tag("p", view.note, class_="note") if view.note else None
    return tag(
        "div",
        _legend(view),
        tag("div", *(tag("div", panel, class_="scroll fit") for panel in view.panels), class_=kind),
        note,
        _data(chart, view.data),
        class_="view" if len(view.panels) > 1 else "view single",
        data_key="-".join(map(str, view.key)),
        hidden=not first,
    )


def _legend(view: View) -> Html | None:
    """Draw each entry apart, so that the legend flows with the width of the page."""
    if not view.legend:
        return None
    names = (entry[0] for entry in view.legend)
    drawn = (drawing(legend_size(e), 20, n, "Legend", legend_entry(e)) for n, e in zip(names, view.legend, strict=True))
    return tag("div", *(tag("li", each) for each in drawn), class_="key", role="list", aria_label="Legend")


def _data(chart: Chart, data: Data) -> Html:
    head = tag("tr", *(tag("th", name, scope="col") for name in data.header))
    rows = (tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in data.rows)
    caption = tag("caption", f"Data: {chart.title}", class_="unseen")
    table = tag("table", caption, tag("thead", head), tag("tbody", *rows), class_="plain")
    return tag("details", tag("summary", "Show the data"), scrolling(table, f"Data: {chart.title}"))


def _glossary() -> Html:
    words = (
        ("EOD", "the larger of the gaps between groups in true and in false positive rate"),
        ("DP-Dis", "the largest distance of a group's positive rate from the overall one, mean over attributes"),
        ("DIS", "accuracy of the best client minus that of the worst"),
        ("λ, τ", "a constraint's multiplier (how hard it pushes) and its bound"),
    )
    return tag("dl", *(join(tag("dt", word), tag("dd", text)) for word, text in words), class_="words")
