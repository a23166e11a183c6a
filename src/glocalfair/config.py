"""One typed configuration for an experiment: TOML in, the resolved TOML out, unknown keys are errors."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from glocalfair.data.partition import PartitionSpec
from glocalfair.data.split import SplitSpec
from glocalfair.errors import GlocalfairError, invalid, unknown
from glocalfair.options import from_mapping
from glocalfair.privacy.settings import PrivacyConfig
from glocalfair.types import Combining


@dataclass(frozen=True)
class ModelConfig:
    """The model: a name of ``glocalfair list models`` or ``package.module:factory``."""

    name: str = "mlp"
    hidden: tuple[int, ...] = (32, 16)
    warm_start: str | None = None
    """A ``model.safetensors`` of an earlier run to start from."""
    norm: Literal["batch", "group"] = "batch"
    """Norm layers of a picture model."""
    width: float = 1.0
    """Factor on the channels of a picture model, for small budgets."""
    reduce: int = 32
    """By how much a picture model shrinks the sides: 32 as published; 16 or 8 for small pictures."""
    pretrained: str | None = None
    """Weights with torchvision's key names to start a picture model from: a .safetensors, .pt or .pth file."""

    def __post_init__(self) -> None:
        if any(size < 1 for size in self.hidden):
            raise invalid("model.hidden", "a list of whole numbers of at least 1", list(self.hidden))


@dataclass(frozen=True)
class TrainConfig:
    """Rounds and local training, the same for every method."""

    rounds: int = 30
    participation: float = 0.75
    """Share of the clients that train in a round (at least one)."""
    dropout: float = 0.0
    """Chance that a chosen client fails and its update never arrives."""
    epochs: int = 1
    batch_size: int = 64
    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 0.0
    lr_decay: float = 1.0
    """Factor on the learning rate after every `lr_decay_every` rounds."""
    lr_decay_every: int = 10
    augment: Literal["none", "flip", "flip+shift"] = "none"
    """Mirror pictures at random, and move them by up to 1/16 of their side."""
    class_weight: Literal["balanced"] | tuple[float, ...] | None = None
    """Loss weights of the classes: ``"balanced"`` on each client, or two numbers for label 0 and 1."""
    average_last: int = 0
    """The final model is the mean of the last so many global models; 0 = as the method recommends."""
    early_stopping: int = 0
    """Stop after so many evaluations without a better validation loss and keep the best model; 0 = never."""

    def __post_init__(self) -> None:
        positive = ("rounds", "epochs", "batch_size", "lr_decay_every")
        for name in positive:
            if getattr(self, name) < 1:
                raise invalid(f"train.{name}", "a whole number of at least 1", getattr(self, name))
        if not 0 < self.participation <= 1:
            raise invalid("train.participation", "above 0 and at most 1", self.participation)
        if not 0 <= self.dropout < 1:
            raise invalid("train.dropout", "at least 0 and below 1", self.dropout)
        if not 0 < self.lr < math.inf:
            raise invalid("train.lr", "a number above 0", self.lr)
        if not 0 <= self.momentum < 1:
            raise invalid("train.momentum", "at least 0 and below 1", self.momentum)
        for name in ("weight_decay", "early_stopping", "average_last"):
            if not 0 <= getattr(self, name) < math.inf:
                raise invalid(f"train.{name}", "at least 0", getattr(self, name))
        if not 0 < self.lr_decay <= 1:
            raise invalid("train.lr_decay", "above 0 and at most 1", self.lr_decay)
        weights = self.class_weight
        if isinstance(weights, tuple) and not (len(weights) == 2 and all(0 < weight < math.inf for weight in weights)):
            raise invalid("train.class_weight", "'balanced' or two numbers above 0", list(weights))
        if self.early_stopping and self.average_last > 1:
            raise GlocalfairError(
                "'train.average_last' needs a fixed last round: set it to 0 or switch 'train.early_stopping' off (0)."
            )


@dataclass(frozen=True)
class RunConfig:
    """How the run is executed; only `seed` and `dtype` can change a result."""

    seed: int = 0
    evaluate_every: int = 1
    dtype: Literal["float32", "float64"] = "float32"
    workers: int = 1
    cohort: int = 128
    """How many clients train together as one tensor program; fewer if the model is large."""
    checkpoint_every: int = 0
    """After how many rounds the state is saved; 0 = whenever a second has passed since the last time."""
    evaluate_clients: bool = True
    """Whether methods that look at client models (Gini) get each one's own EOD logged too."""
    evaluate_clients_every: int = 0
    """After how many rounds; 0 = so seldom that it takes a quarter of a look at the rows that clients train on:
    every fifth round for eight clients. The last round is always among them."""
    device: str = "auto"
    """``"cpu"``, ``"cuda"``, ``"cuda:1"`` …; ``"auto"`` trains picture models on a GPU if there is one."""

    def __post_init__(self) -> None:
        for name in ("evaluate_every", "workers", "cohort"):
            if getattr(self, name) < 1:
                raise invalid(f"run.{name}", "a whole number of at least 1", getattr(self, name))
        for name in ("seed", "checkpoint_every", "evaluate_clients_every"):
            if getattr(self, name) < 0:
                raise invalid(f"run.{name}", "a whole number of at least 0", getattr(self, name))


@dataclass(frozen=True)
class ServerConfig(Combining):
    """What the server does against broken and hostile updates, beside the checks that it always makes."""

    max_norm: float = 1000.0
    """Updates whose step is longer than so many times the round's median step, or than so many times 1 + ‖w‖, are
    rejected; 0 = none."""

    def __post_init__(self) -> None:
        if not 0 <= self.trim < 0.5:
            raise invalid("server.trim", "at least 0 and below 0.5", self.trim)
        for name in ("clip", "max_norm"):
            if not 0 <= getattr(self, name) < math.inf:
                raise invalid(f"server.{name}", "a number of at least 0", getattr(self, name))


@dataclass(frozen=True)
class Config:
    """An experiment. ``data`` and ``method`` hold a name and the options of that dataset or method."""

    data: Mapping[str, Any] = field(default_factory=lambda: {"name": "adult"})
    partition: PartitionSpec = field(default_factory=PartitionSpec)
    split: SplitSpec = field(default_factory=SplitSpec)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    method: Mapping[str, Any] = field(default_factory=lambda: {"name": "fedavg"})
    server: ServerConfig = field(default_factory=ServerConfig)
    privacy: PrivacyConfig = field(default_factory=PrivacyConfig)
    run: RunConfig = field(default_factory=RunConfig)


_SECTIONS = {
    "partition": PartitionSpec,
    "split": SplitSpec,
    "model": ModelConfig,
    "train": TrainConfig,
    "server": ServerConfig,
    "privacy": PrivacyConfig,
    "run": RunConfig,
}


def build(values: Mapping[str, Any]) -> Config:
    """Check a nested mapping (as TOML gives it) and make a `Config` of it.

    >>> build({"train": {"rounds": 3}}).train.rounds
    3
    >>> build({"train": {"round": 3}})
    Traceback (most recent call last):
    glocalfair.errors.GlocalfairError: Unknown key in [train] 'round'. Did you mean 'rounds'? Known: ...
    """
    arguments: dict[str, Any] = {}
    for section, content in values.items():
        if section not in {f.name for f in dataclasses.fields(Config)}:
            raise unknown("section", section, [f.name for f in dataclasses.fields(Config)])
        if not isinstance(content, Mapping):
            raise invalid(section, "a section with keys", content, f"Write [{section}] and its keys below.")
        if section in _SECTIONS:
            arguments[section] = from_mapping(_SECTIONS[section], content, f"key in [{section}]")
        else:
            if not isinstance(content.get("name"), str):
                raise invalid(f"{section}.name", "a name", content.get("name"))
            arguments[section] = dict(content)
    return Config(**arguments)


def to_mapping(config: Config) -> dict[str, Any]:
    """Return the config as nested plain values; `build` is its inverse."""
    result: dict[str, Any] = {}
    for f in dataclasses.fields(config):
        value = getattr(config, f.name)
        plain = dict(value) if isinstance(value, Mapping) else dataclasses.asdict(value)
        result[f.name] = {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items() if v is not None}
    return result


def load(experiment: str | None, overrides: Iterable[tuple[str, Any]] = (), budget: str | None = None) -> Config:
    """Read a packaged experiment by name or a TOML file by path, then apply ``(dotted.key, value)`` pairs.

    Without an experiment there are the defaults and the pairs. `budget` names a table ``[budgets.NAME]`` of the
    experiment, whose sections are laid over the others.
    """
    values: dict[str, Any] = {} if experiment is None else read(experiment)
    if experiment is not None:
        _locate(values, Path(experiment))
    budgets = values.pop("budgets", {})
    if budget is not None:
        if budget not in budgets:
            raise unknown(f"budget of '{experiment}'", budget, budgets)
        for section, content in budgets[budget].items():
            values[section] = {**values.get(section, {}), **content}
    for key, value in overrides:
        section, dot, name = key.partition(".")
        if not dot:
            raise invalid("--set", "section.key=value", key, "For instance: --set train.lr=0.05")
        values.setdefault(section, {})
        if not isinstance(values[section], dict):
            raise invalid(section, "a section with keys", values[section])
        _assign(values[section], name.split("."), value)
    return build(values)


def _locate(values: dict[str, Any], file: Path) -> None:
    """Make the path of the user's own data relative to the experiment file, wherever it is run from."""
    data = values.get("data")
    for key in ("path", "root"):
        if isinstance(data, dict) and isinstance(data.get(key), str) and data[key] and file.is_file():
            data[key] = str((file.resolve().parent / data[key]).resolve())


def _assign(target: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        target = target.setdefault(part, {})
    if path[-1] == "name" and target.get("name") != value:
        # Another dataset, method or model: the options of the old one do not apply to it.
        target.clear()
    target[path[-1]] = value


def experiments() -> dict[str, str]:
    """Return the packaged experiments: name → first comment line."""
    folder = resources.files("glocalfair") / "experiments"
    found = {}
    for entry in folder.iterdir():
        if entry.name.endswith(".toml"):
            found[entry.name[:-5]] = entry.read_text().splitlines()[0].lstrip("# ")
    return dict(sorted(found.items()))


def read(experiment: str) -> dict[str, Any]:
    """Return the raw mapping of an experiment: a packaged name or the path of a TOML file."""
    path = Path(experiment)
    if experiment in experiments():
        text = (resources.files("glocalfair") / "experiments" / f"{experiment}.toml").read_text()
    elif path.suffix == ".toml" or path.exists():
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise GlocalfairError(f"Cannot read the experiment '{experiment}': {error}.") from error
    else:
        raise unknown("experiment", experiment, [*experiments(), "or the path of a .toml file"])
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise GlocalfairError(f"'{experiment}' is not valid TOML: {error}.") from error


def parse_value(text: str) -> Any:
    """Read the right side of ``--set key=value`` as TOML; what TOML does not know is a string.

    >>> parse_value("0.5"), parse_value("[1, 2]"), parse_value("adam")
    (0.5, [1, 2], 'adam')
    """
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


def dump(values: Mapping[str, Any], prefix: str = "") -> str:
    """Write nested plain values as TOML (strings, numbers, booleans, lists and tables)."""
    lines = [f"{_key(k)} = {_value(v)}" for k, v in values.items() if not isinstance(v, Mapping)]
    for key, value in values.items():
        if isinstance(value, Mapping):
            name = f"{prefix}{_key(key)}"
            lines += ["", f"[{name}]", dump(value, f"{name}.").rstrip()]
    return "\n".join(lines).strip() + "\n"


def _key(key: str) -> str:
    plain = key and all(c.isascii() and (c.isalnum() or c in "-_") for c in key)
    return key if plain else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = "".join(c if c >= " " and c not in '"\\\x7f' else f"\\u{ord(c):04x}" for c in value)
        return f'"{escaped}"'
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return repr(value)
