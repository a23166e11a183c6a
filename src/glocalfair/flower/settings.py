"""What a deployment is told: the coordinator's file, and the terms that go with every message."""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from glocalfair import config as configuration
from glocalfair import models
from glocalfair.config import Config
from glocalfair.errors import GlocalfairError, invalid
from glocalfair.methods.base import Method
from glocalfair.models import Factory, PictureSettings
from glocalfair.options import from_mapping
from glocalfair.registry import method as make_method

if TYPE_CHECKING:
    from torch import nn

FOR_PICTURES = ("norm", "width", "reduce")
"""Settings of `ModelConfig` for picture models."""


@dataclass(frozen=True)
class FlowerConfig:
    """Section ``[flower]`` of the coordinator's file.

    Attributes
    ----------
    sites
        Names of the sites that are expected; nobody else may take part. Empty: whoever connects.
    min_sites
        With fewer sites there is no run.
    quorum
        Share of a round's participants whose updates are needed; with fewer the global model stays as it is.
    give_up
        After so many rounds in a row without a quorum the run stops; it can be submitted again.
    enrol_timeout, round_timeout
        Seconds to wait for sites to connect, and for the replies of a round.
    schema
        The published schema, relative to the coordinator's file.
    standardise
        ``"schema"``: by the centre and scale in the schema, nothing is sent; ``"totals"``: by the federation's mean
        and standard deviation, for which each site sends three totals for each numeric column, once.
    test
        A table of the coordinator's own to measure the final model on.
    """

    sites: tuple[str, ...] = ()
    min_sites: int = 2
    quorum: float = 0.5
    give_up: int = 3
    enrol_timeout: float = 300.0
    round_timeout: float = 3600.0
    schema: str = "schema.json"
    standardise: Literal["schema", "totals"] = "schema"
    test: str | None = None

    def __post_init__(self) -> None:
        for name in ("min_sites", "give_up"):
            if getattr(self, name) < 1:
                raise invalid(f"flower.{name}", "a whole number of at least 1", getattr(self, name))
        if not 0 < self.quorum <= 1:
            raise invalid("flower.quorum", "a share above 0 and at most 1", self.quorum)
        for name in ("enrol_timeout", "round_timeout"):
            if not 0 < getattr(self, name) < float("inf"):
                raise invalid(f"flower.{name}", "a number of seconds above 0", getattr(self, name))
        if self.sites and len(set(self.sites)) < max(self.min_sites, len(self.sites)):
            raise invalid("flower.sites", f"at least {self.min_sites} names, each once", list(self.sites))


def read(path: Path) -> tuple[Config, FlowerConfig]:
    """Read the coordinator's file: an experiment without data and partition, and a section ``[flower]``."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise GlocalfairError(f"Cannot read '{path}': {error}.") from error
    flower = from_mapping(FlowerConfig, values.pop("flower", {}), "key in [flower]")
    for section in ("data", "partition"):
        if section in values:
            raise GlocalfairError(f"'{path}' must not have [{section}]: who holds what is for the sites to say.")
    return checked(configuration.build({"data": {"name": "sites"}, **values})), flower


def checked(config: Config) -> Config:
    """Refuse what a coordinator without data cannot do."""
    if config.train.early_stopping:
        raise GlocalfairError("'train.early_stopping' needs validation rows, which the coordinator has none of. Use 0.")
    if config.train.dropout:
        raise GlocalfairError("'train.dropout' is for simulations; here sites fail by themselves. Use 0.")
    return config


def _model(config: Config) -> dict[str, Any]:
    told = config.model
    more = {key: getattr(told, key) for key in FOR_PICTURES} if told.name in models.PICTURES else {}
    return {"name": told.name, "hidden": list(told.hidden), **more}


@dataclass(frozen=True)
class Terms:
    """What all sites of a run agree on; goes with every message, so that a site needs to remember none of it."""

    run: str
    """A text of its own for each run; a site keeps its state under it."""
    method: Mapping[str, Any]
    seed: int = 0
    dtype: Literal["float32", "float64"] = "float32"
    class_weight: Literal["balanced"] | tuple[float, ...] | None = None
    model: Mapping[str, Any] = field(default_factory=dict)
    validation: float = 0.1
    local_test: float = 0.2
    standardise: Literal["schema", "totals"] = "schema"
    privacy: Mapping[str, Any] = field(default_factory=dict)
    schema: Mapping[str, Any] | None = None
    encoder: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, run: str, config: Config, flower: FlowerConfig, schema: Mapping[str, Any] | None) -> Terms:
        """Take the terms from the coordinator's file."""
        return cls(
            run=run,
            method=dict(config.method),
            seed=config.run.seed,
            dtype=config.run.dtype,
            class_weight=config.train.class_weight,
            model=_model(config),
            validation=config.split.validation,
            local_test=config.split.local_test,
            standardise=flower.standardise,
            privacy=dataclasses.asdict(config.privacy),
            schema=schema,
        )

    def made_method(self, overrides: Mapping[str, Any] | None = None) -> Method:
        """Make the method; `overrides` replace settings."""
        settings = {key: value for key, value in self.method.items() if key != "name"}
        return make_method(str(self.method.get("name")), {**settings, **(overrides or {})})

    def made_model(self, shape: tuple[int, ...], factory: Factory | None = None) -> nn.Module:
        """Make the model for inputs of this shape, with its first weights."""
        name = str(self.model.get("name", "mlp"))
        if ":" in name and factory is None:
            # An import runs code; what a coordinator names must not be imported at a site.
            raise GlocalfairError(f"The model '{name}' is code. Give its factory to server_app and client_app.")
        told = {key: self.model[key] for key in FOR_PICTURES if key in self.model}
        pictures = from_mapping(PictureSettings, {"channels": shape[0], **told}) if len(shape) == 3 else None
        hidden = tuple(self.model.get("hidden", (32, 16)))
        return models.build(name, math.prod(shape), self.seed, hidden, factory, pictures)

    def to_json(self) -> str:
        """Write the terms as text."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Terms:
        """Read the terms; anything else is an error.

        >>> Terms.from_json(Terms("r", {"name": "fedavg"}).to_json()).method
        {'name': 'fedavg'}
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise GlocalfairError(f"The terms are no JSON: {error}.") from error
        if not isinstance(values, dict):
            raise invalid("terms", "a table of keys and values", values)
        return from_mapping(cls, values, "key in the terms")
