"""HTML and SVG from Python values: whatever is not markup already is escaped."""

from __future__ import annotations

import html

_ALONE = {"path", "line", "circle", "rect", "meta", "br"}


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def escape(value: object) -> Html:
    """Make any value safe to show; markup stays as it is.

    >>> escape("<img src=x>"), escape(Html("<br/>"))
    ('&lt;img src=x&gt;', '<br/>')
    """
    if isinstance(value, Html):
        return value
    # Control characters are no part of XML: a client's name may hold them, a saved figure may not.
    text = "".join(c if c >= " " or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in str(value))
    return Html(html.escape(text))


def join(*children: object) -> Html:
    """Put pieces one after the other; None is nothing."""
    return Html("".join(escape(child) for child in children if child is not None))


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """Write an element; ``class_`` is class, ``aria_label`` aria-label, None and False leave an attribute out.

    >>> tag("p", "a < b", class_="note", hidden=True)
    '<p class="note" hidden="">a &lt; b</p>'
    """
    written = [
        f' {key.rstrip("_").replace("_", "-")}="{"" if value is True else escape(value)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    ]
    if name in _ALONE and not children:
        return Html(f"<{name}{''.join(written)}/>")
    return Html(f"<{name}{''.join(written)}>{join(*children)}</{name}>")
