"""Finds methods by themselves: every `Method` subclass with a name in a module of `glocalfair.methods`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any

import glocalfair.methods
from glocalfair.errors import unknown
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


def method(name: str, settings: Mapping[str, Any] | None = None) -> Method:
    """Make a method from its name and settings; unknown names and bad values are explained.

    >>> method("fedavg").name
    'fedavg'
    """
    if name not in methods():
        raise unknown("method", name, methods())
    return from_mapping(methods()[name], settings or {}, f"setting of method '{name}'")
