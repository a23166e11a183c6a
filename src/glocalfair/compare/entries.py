"""What is compared: a method with its settings, under the name that it has in the tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glocalfair.config import Config
from glocalfair.errors import invalid, unknown
from glocalfair.methods.base import Method
from glocalfair.registry import method as make_method
from glocalfair.registry import methods

PAPER = ("fedavg", "qffl", "gifair", "fairfed", "fedfb", "glocalfair")
ENTRIES = (*PAPER, "glocalfair-paper")
"""What is compared unless something else is asked for: the paper's methods, and its own as published."""

Settings = Mapping[str, Mapping[str, Any]]
"""Name of an entry → settings of its method; ``method`` names the method where the entry has another name."""


@dataclass(frozen=True)
class Entry:
    """One line of the tables: a method and its settings under a label."""

    label: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def make(self) -> Method:
        """Return the method; a wrong setting is explained."""
        return make_method(self.method, self.settings)

    def resolved(self) -> dict[str, Any]:
        """Return the name and *every* setting, so that a later change of a default is seen as a change."""
        made = self.make()
        values = {f.name: getattr(made, f.name) for f in dataclasses.fields(made)}
        return {"name": self.method, **{k: v for k, v in values.items() if v is not None}}


def names(text: str, known: Iterable[str] = ()) -> tuple[str, ...]:
    """Read a list of methods: names with commas, ``module:Class``, ``"all"`` or ``"paper"``; each once.

    >>> names("fedavg, qffl,fedavg")
    ('fedavg', 'qffl')
    >>> names("fedavgg")
    Traceback (most recent call last):
    glocalfair.errors.GlocalfairError: Unknown method 'fedavgg'. Did you mean 'fedavg'? Known: ...
    """
    groups: dict[str, tuple[str, ...]] = {"all": (*ENTRIES, *methods(), *known), "paper": PAPER}
    found: list[str] = []
    for name in filter(None, (part.strip() for part in text.split(","))):
        if ":" not in name and name not in groups and name not in methods() and name not in known:
            raise unknown("method", name, [*methods(), *known, *groups])
        found += groups.get(name, (name,))
    if not found:
        raise invalid("--methods", "names with commas between them, 'all' or 'paper'", text)
    return tuple(dict.fromkeys(found))


def split_settings(
    overrides: Iterable[tuple[str, Any]], known: Iterable[str] = ()
) -> tuple[list[tuple[str, Any]], dict[str, dict[str, Any]]]:
    """Tell settings of single methods, ``method.NAME.key``, from those of the whole experiment.

    >>> split_settings([("train.lr", 0.1), ("method.qffl.q", 2)])
    ([('train.lr', 0.1)], {'qffl': {'q': 2}})
    >>> split_settings([("method.my.module:Mine.strength", 2)])
    ([], {'my.module:Mine': {'strength': 2}})
    """
    allowed = {*methods(), *known}
    common: list[tuple[str, Any]] = []
    settings: dict[str, dict[str, Any]] = {}
    for key, value in overrides:
        section, *rest = _parts(key)
        if section != "method":
            common.append((key, value))
            continue
        if len(rest) < 2:
            example = "For instance: --set method.qffl.q=2"
            raise invalid("--set", "method.NAME.key=value where several methods are compared", key, example)
        name, *path = rest
        if ":" not in name and name not in allowed:
            raise unknown("method", name, allowed)
        place = settings.setdefault(name, {})
        for part in path[:-1]:
            place = place.setdefault(part, {})
        place[path[-1]] = value
    return common, settings


def _parts(key: str) -> list[str]:
    """Split at the dots, but not at those of the module in ``method.package.module:Class.key``."""
    module, colon, rest = key.partition(":")
    if not colon:
        return key.split(".")
    section, _, module = module.partition(".")
    name, *path = rest.split(".")
    return [section, f"{module}:{name}", *path]


def choose(labels: Sequence[str], config: Config, *layers: Settings) -> tuple[Entry, ...]:
    """Make the entries; later layers of settings win, the experiment's own ``[method]`` comes first.

    Examples
    --------
    >>> choose(["qffl"], Config(), {"qffl": {"q": 1.0}}, {"qffl": {"q": 2.0}})
    (Entry(label='qffl', method='qffl', settings={'q': 2.0}),)
    >>> choose(["weak"], Config(), {"weak": {"method": "qffl", "q": 0.01}})
    (Entry(label='weak', method='qffl', settings={'q': 0.01}),)
    """
    entries = []
    for label in labels:
        settings: dict[str, Any] = {}
        if label == config.method["name"]:
            settings.update({key: value for key, value in config.method.items() if key != "name"})
        for layer in layers:
            settings.update(layer.get(label, {}))
        entry = Entry(label, settings.pop("method", label), settings)
        entry.make()
        entries.append(entry)
    return tuple(entries)
