"""Finds methods by themselves: every `Method` subclass with a name in a module of `glocalfair.methods`.

A method of the user's own is named like a model of their own, ``package.module:Class``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any

import glocalfair.methods
from glocalfair.errors import GlocalfairError, invalid, unknown
from glocalfair.methods.base import Method
from glocalfair.options import from_mapping


@cache
def methods() -> dict[str, type[Method]]:
    """Return all registered methods by name, sorted."""
    found: dict[str, type[Method]] = {}
    for info in pkgutil.iter_modules(glocalfair.methods.__path__):
        module = importlib.import_module(f"glocalfair.methods.{info.name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Method) and value.name:
                found[value.name] = value
    return dict(sorted(found.items()))


def method_class(name: str, allow_import: bool = True) -> type[Method]:
    """Return a registered method, or one of the user's own, ``package.module:Class``.

    Where the name comes from a file of somebody else, `allow_import` must be False: an import runs code.

    >>> method_class("fedavg").name
    'fedavg'
    """
    if ":" in name and allow_import:
        return _imported(name)
    if name not in methods():
        raise unknown("method", name, methods())
    return methods()[name]


def method(name: str, settings: Mapping[str, Any] | None = None, allow_import: bool = True) -> Method:
    """Make a method from its name and settings; unknown names and bad values are explained.

    >>> method("fedavg").name
    'fedavg'
    """
    return from_mapping(method_class(name, allow_import), settings or {}, f"setting of method '{name}'")


def _imported(path: str) -> type[Method]:
    module, _, attribute = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        raise GlocalfairError(
            f"Cannot load the method '{path}': {type(error).__name__}: {error}. Give it as 'package.module:Class', "
            "importable from here."
        ) from error
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise invalid("method.name", "a subclass of glocalfair.methods.base.Method", path)
    if not found.name or found.name in methods():
        raise invalid(
            "name", "a name of its own, which no method of glocalfair has", found.name, f"Set it in '{path}'."
        )
    return found
