"""The front door for Python: `Federation.from_frame`, `train`, `Result`."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from glocalfair.bundle import preprocessing
from glocalfair.callbacks import Callback
from glocalfair.config import Config, ModelConfig, RunConfig, TrainConfig, to_mapping
from glocalfair.data.federation import build
from glocalfair.data.frame import FrameOptions, as_polars, prepare
from glocalfair.data.frame.options import TRAINING
from glocalfair.data.holdings import who_holds_what
from glocalfair.data.partition import PartitionSpec
from glocalfair.data.split import SplitSpec
from glocalfair.errors import unknown
from glocalfair.options import from_mapping
from glocalfair.types import Federation

if TYPE_CHECKING:
    from glocalfair.models import Factory
    from glocalfair.result import Result

OnRound = Callable[[Mapping[str, Any]], None]


class FrameWarning(UserWarning):
    """Something in the user's table that they should look at."""


class DivergenceWarning(UserWarning):
    """The training went wrong and ended early; the result says when."""


def federation_from_frame(
    frame: Any,
    *,
    label: str,
    sensitive: str | Sequence[str] = (),
    client: str | None = None,
    positive: str | int | float | bool | None = None,
    partition: str | Mapping[str, Any] | None = None,
    split: Mapping[str, Any] | None = None,
    seed: int = 0,
    name: str = "frame",
    **options: Any,
) -> Federation:
    """Make a federation of a table; `Federation.from_frame` is this function.

    Parameters
    ----------
    frame
        A polars or pandas frame, a mapping of columns, or the path of a CSV or Parquet file.
    label, positive
        The column to predict, and which of its two values is positive if that is not obvious.
    sensitive
        Sensitive columns; ``"age:<40"`` makes groups of a number.
    client
        The column that names the organisation of a row. Without it `partition` deals the rows out.
    partition
        A name of ``glocalfair list partitions``, or its settings: ``{"name": "dirichlet", "clients": 8}``.
    split
        Shares of the parts: ``{"test": 0.2}``.
    seed
        Equal seeds give equal federations.
    name
        For tables and messages.
    options
        The other options of `FrameOptions`, such as ``drop`` and ``missing_sensitive``.

    Examples
    --------
    >>> people = {"age": range(60), "sex": ["F", "M"] * 30, "site": ["a", "b", "c"] * 20, "hired": [0, 0, 1, 1] * 15}
    >>> federation = Federation.from_frame(people, label="hired", sensitive="sex", client="site", keep=["age"])
    >>> [client.name for client in federation.clients], federation.attributes[0].values
    (['a', 'b', 'c'], ('F', 'M'))
    """
    sensitive = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    values = {"label": label, "positive": positive, "sensitive": sensitive, "client": client, **options}
    found = prepare(as_polars(frame), from_mapping(FrameOptions, values, "option of the frame"), name)
    for text in found.profile.warnings:
        warnings.warn(text, FrameWarning, stacklevel=3)
    if partition is None:
        partition = {"name": "iid" if client is None else "by_column", "min_rows": 1}
    settings = {"name": partition} if isinstance(partition, str) else partition
    about = {"schema": found.schema.to_dict(), "profile": found.profile.to_dict()}
    dataset = dataclasses.replace(found.dataset, about=about)
    federation, encoder = build(
        dataset, from_mapping(PartitionSpec, settings, "setting"), from_mapping(SplitSpec, split or {}, "share"), seed
    )
    return dataclasses.replace(federation, about=preprocessing(dataset, encoder))


def train(
    federation: Federation,
    method: str | Mapping[str, Any] = "glocalfair",
    model: Any = None,
    *,
    rounds: int = 30,
    seed: int = 0,
    callbacks: Iterable[Callback | OnRound] = (),
    progress: bool | None = None,
    **settings: Any,
) -> Result:
    """Train one model on a federation and measure it.

    Parameters
    ----------
    federation
        Of `Federation.from_frame`, or of `glocalfair.data.build`.
    method
        A name of ``glocalfair list methods``, or a mapping of ``name`` and settings.
    model
        None for the MLP of the paper; a name of ``glocalfair list models``; a function from the number of inputs to an
        `nn.Module` with one logit; or such a module, whose weights are the start.
    rounds, seed
        Number of rounds; equal seeds give equal results.
    callbacks
        Objects with the methods of `Callback`, or functions that take the record of a round.
    progress
        Show the rounds; by default in a terminal and in a notebook.
    settings
        Settings of the training (``lr``, ``epochs``, ``batch_size`` …), of the run (``workers``, ``dtype`` …), of the
        method (``gamma``, ``tau_fnr`` …), or ``hidden``, the sizes of the MLP's hidden layers.

    Examples
    --------
    >>> people = {"x": range(90), "sex": ["F", "M", "M"] * 30, "hired": [0, 0, 1, 1, 1] * 18}
    >>> federation = Federation.from_frame(people, label="hired", sensitive="sex", keep=["x"])
    >>> result = train(federation, "fedavg", rounds=2, lr=0.1)
    >>> result.metrics["rounds"], sorted(result.metrics["global"]["eod"])
    (2, ['sex'])
    """
    from glocalfair.experiment import Experiment
    from glocalfair.result import Result

    factory, name = _factory(model)
    chosen = {"name": method} if isinstance(method, str) else dict(method)
    config = _config(federation, chosen, name, {"rounds": rounds, "seed": seed, **settings})
    ready = Experiment.prepare(config, federation, factory)
    records: list[Mapping[str, Any]] = []
    watchers = [each if isinstance(each, Callback) else _Function(each) for each in callbacks]
    with ExitStack() as stack:
        for watcher in watchers:
            stack.callback(watcher.close)
            watcher.on_start(to_mapping(config))
        show = stack.enter_context(_progress(config.train.rounds, progress))

        def on_round(record: Mapping[str, Any]) -> None:
            records.append(record)
            show.update(record)
            for watcher in watchers:
                watcher.on_round(record)

        finished = ready.complete(on_round=on_round)
        if "diverged" in finished.result:
            warnings.warn(finished.result["diverged"]["message"], DivergenceWarning, stacklevel=2)
        for watcher in watchers:
            watcher.on_end(finished.result)
    return Result(
        model=ready.module(finished.weights),
        metrics=finished.result,
        rounds=records,
        config=config,
        counts=finished.counts,
        bundle=ready.bundle(finished.weights),
        holdings=vars(who_holds_what(federation)),
    )


class _Function(Callback):
    """A plain function as a callback."""

    def __init__(self, function: OnRound) -> None:
        self._function = function

    def on_round(self, record: Mapping[str, Any]) -> None:
        self._function(record)


def _factory(model: Any) -> tuple[Factory | None, str]:
    """Return the function that makes the model, if it is no built-in one, and the model's name."""
    if model is None or isinstance(model, str):
        return None, model or "mlp"
    from torch import nn

    if isinstance(model, nn.Module):
        return lambda inputs: copy.deepcopy(model), f"own:{type(model).__name__}"
    name = getattr(model, "__qualname__", type(model).__name__)
    return model, f"{getattr(model, '__module__', 'own')}:{name}"


def _config(federation: Federation, method: dict[str, Any], model: str, settings: Mapping[str, Any]) -> Config:
    """Sort the settings into their sections."""
    from glocalfair.registry import method as make_method

    made = make_method(method["name"], {k: v for k, v in method.items() if k != "name"})
    fields = {f.name for f in dataclasses.fields(made)}
    parts: dict[type[Any], dict[str, Any]] = {TrainConfig: dict(TRAINING), RunConfig: {}, ModelConfig: {"name": model}}
    names: dict[type[Any], set[str]] = {ModelConfig: {"hidden"}}
    names |= {kind: {f.name for f in dataclasses.fields(kind)} for kind in (TrainConfig, RunConfig)}
    for name, value in settings.items():
        kind = next((kind for kind in names if name in names[kind]), None)
        if kind is not None:
            parts[kind][name] = value
        elif name in fields:
            method[name] = value
        else:
            raise unknown("setting", name, {*fields, *(each for known in names.values() for each in known)})
    sections = {kind: from_mapping(kind, values, "setting") for kind, values in parts.items()}
    return Config(
        data={"name": federation.name},
        model=sections[ModelConfig],
        train=sections[TrainConfig],
        method=method,
        run=sections[RunConfig],
    )


def _progress(rounds: int, wanted: bool | None) -> Any:
    from glocalfair.report.console import console
    from glocalfair.report.progress import Progress

    if wanted is None:
        out = console(stderr=True)
        wanted = out.is_terminal or out.is_jupyter
    return Progress(rounds, silent=not wanted)
