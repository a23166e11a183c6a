"""What mkdocs needs from us: formulas as MathML, and the reference of commands and settings from the code.

A page says ``<!-- commands -->`` or ``<!-- settings -->`` where the generated part goes.
"""

from __future__ import annotations

import ast
import dataclasses
import html
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import click
from latex2mathml.converter import convert

FORMULA = re.compile(r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.S)
FIELD = re.compile(r"^(?P<names>\w+(?:, \w+)*)\n(?P<text>(?: {4}.*\n?|\n)+)", re.M)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in the generated parts."""
    if "<!-- commands -->" in markdown:
        markdown = markdown.replace("<!-- commands -->", "\n".join(_commands()))
    if "<!-- settings -->" in markdown:
        markdown = markdown.replace("<!-- settings -->", "\n".join(_settings()))
    return markdown


def on_page_content(content: str, **_: Any) -> str:
    """Turn formulas into MathML, which browsers show by themselves."""
    return FORMULA.sub(lambda found: mathml(html.unescape(found["tex"]), found["tag"] == "div"), content)


def mathml(tex: str, block: bool) -> str:
    """Return a formula as MathML."""
    return convert(tex.strip(), display="block" if block else "inline")


def _commands() -> Iterator[str]:
    from glocalfair.cli import main

    for name, command in main.commands.items():
        context = click.Context(command, info_name=f"glocalfair {name}")
        yield f"## glocalfair {name}\n"
        told, _, examples = (command.help or "").partition("\b\n")
        yield f"{_plain(told)}\n"
        yield f"```text\n{command.get_usage(context)}\n```\n"
        yield "| option | meaning |\n|---|---|"
        for parameter in command.get_params(context):
            record = parameter.get_help_record(context)
            if record:
                yield f"| `{_cell(record[0])}` | {_cell(_plain(record[1]))} |"
        if examples:
            yield f"\n```text\n{examples.split(chr(10), 1)[1].rstrip() if ':' in examples else examples}\n```\n"
        yield ""


def _settings() -> Iterator[str]:
    from glocalfair.config import Config
    from glocalfair.data.registry import datasets
    from glocalfair.registry import methods

    for section in dataclasses.fields(Config):
        if section.default_factory is dataclasses.MISSING or isinstance(section.default_factory(), Mapping):
            continue
        yield from _table(f"[{section.name}]", type(section.default_factory()))
    for name, entry in datasets().items():
        yield from _table(f'[data] name = "{name}"', entry.options)
    for name, kind in methods().items():
        yield from _table(f'[method] name = "{name}"', kind)


def _table(title: str, kind: type[Any]) -> Iterator[str]:
    """Give a dataclass as a table of its fields."""
    meanings = _meanings(kind)
    yield f"## `{title}`\n"
    yield f"{_plain((kind.__doc__ or '').partition(chr(10) * 2)[0])}\n"
    fields = dataclasses.fields(kind)
    if not fields:
        yield "No settings.\n"
        return
    yield "| key | default | meaning |\n|---|---|---|"
    for field in fields:
        yield f"| `{field.name}` | {_default(field)} | {_cell(meanings.get(field.name) or _type(field))} |"
    yield ""


def _default(field: dataclasses.Field[Any]) -> str:
    made = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    if made is dataclasses.MISSING:
        return "(needed)"
    if made is None or made in ((), {}, ""):
        return "–"
    text = f"{made:.4g}" if isinstance(made, float) else str(list(made) if isinstance(made, tuple) else made)
    return f"`{_cell(text)}`"


def _type(field: dataclasses.Field[Any]) -> str:
    return f"`{field.type}`"


def _meanings(kind: type[Any]) -> dict[str, str]:
    """Collect what is written about the fields: under "Attributes" in a docstring, or below the field."""
    found: dict[str, str] = {}
    for owner in reversed([each for each in kind.__mro__ if dataclasses.is_dataclass(each)]):
        _, heading, attributes = inspect.cleandoc(owner.__doc__ or "").partition("Attributes\n----------\n")
        for entry in FIELD.finditer(attributes if heading else ""):
            text = _plain(textwrap.dedent(entry["text"]))
            found |= dict.fromkeys(entry["names"].split(", "), text)
        body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, below in pairwise(body.body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(told))):
                    found[name] = _plain(told)
    return found


def _plain(text: str) -> str:
    """Return docstring text as one Markdown paragraph."""
    return " ".join(text.replace("``", "`").split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;") if "`" not in text else text.replace("|", "\\|")
