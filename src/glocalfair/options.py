"""From a mapping, as TOML gives it, to a frozen options dataclass, with errors that a user understands."""

from __future__ import annotations

import dataclasses
import types
from collections import abc
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from glocalfair.errors import invalid, unknown

T = TypeVar("T")

_RULES: dict[Any, str] = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}


class _MismatchError(Exception):
    """The value does not fit the type; carries the rule in words."""


def _convert(hint: Any, value: Any) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        if value not in args:
            raise _MismatchError("one of " + ", ".join(repr(arg) for arg in args))
        return value
    if origin in (Union, types.UnionType):
        for arg in args:
            try:
                return _convert(arg, value)
            except _MismatchError:
                continue
        raise _MismatchError(" or ".join(_RULES.get(arg, str(arg)) for arg in args if arg is not type(None)))
    if origin is tuple:
        # A lone string is a sequence of letters, which is never what was meant.
        if not isinstance(value, list | tuple):
            raise _MismatchError("a list")
        return tuple(_convert(args[0], item) for item in value)
    if origin is abc.Mapping:
        if not isinstance(value, Mapping):
            raise _MismatchError("a table of keys and values")
        return dict(value)
    if hint is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise _MismatchError("a number below 1e308") from None
    # `type is`, because True is an int to isinstance.
    if type(value) is not hint:
        raise _MismatchError(_RULES.get(hint, getattr(hint, "__name__", str(hint))))
    return value


def from_mapping(cls: type[T], values: Mapping[str, Any], kind: str = "option") -> T:
    """Build the options dataclass `cls`; fields that `values` leaves out keep their defaults.

    Parameters
    ----------
    cls
        A dataclass. A field is a str, int, float, bool or Literal, a tuple of those, or one of them or None.
    values
        Field names and values. Lists become tuples and whole numbers floats where the field asks for it.
    kind
        How an error calls a name that does not exist.

    Examples
    --------
    >>> from glocalfair.data.split import SplitSpec
    >>> from_mapping(SplitSpec, {"test": 0.2}).test
    0.2
    >>> from_mapping(SplitSpec, {"fold": "one"})
    Traceback (most recent call last):
    glocalfair.errors.GlocalfairError: 'fold' must be a whole number. Got 'one' instead.
    """
    assert dataclasses.is_dataclass(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    hints = get_type_hints(cls)
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        if name not in names:
            raise unknown(kind, name, names)
        try:
            arguments[name] = _convert(hints[name], value)
        except _MismatchError as mismatch:
            raise invalid(name, str(mismatch), value) from None
    return cls(**arguments)
