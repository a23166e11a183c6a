"""What may watch a training: a base class, and two that write to MLflow and TensorBoard (extras)."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from glocalfair.errors import GlocalfairError


class Callback:
    """Watches a training; override what is of interest.

    >>> class Losses(Callback):
    ...     def on_round(self, record):
    ...         print(record["round"], round(record["loss"], 1))
    >>> Losses().on_round({"round": 1, "loss": 0.693})
    1 0.7
    """

    def on_start(self, config: Mapping[str, Any]) -> None:
        """Before the first round, with the configuration as nested plain values."""

    def on_round(self, record: Mapping[str, Any]) -> None:
        """After each round, with its line of ``rounds.jsonl``."""

    def on_end(self, metrics: Mapping[str, Any]) -> None:
        """After the last round, with the final metrics."""

    def close(self) -> None:
        """At the very end, also if the training failed."""


class MLflowCallback(Callback):
    """Logs settings, rounds and final metrics to MLflow: ``train(…, callbacks=[MLflowCallback()])``.

    Parameters
    ----------
    experiment, run_name, tracking_uri
        As MLflow calls them; its own defaults if left out.
    """

    def __init__(
        self, experiment: str | None = None, run_name: str | None = None, tracking_uri: str | None = None
    ) -> None:
        self._mlflow = _extra("mlflow", "mlflow")
        if tracking_uri is not None:
            self._mlflow.set_tracking_uri(tracking_uri)
        if experiment is not None:
            self._mlflow.set_experiment(experiment)
        self._run_name = run_name
        self._failed = True

    def on_start(self, config: Mapping[str, Any]) -> None:
        """Start a run with the settings as parameters."""
        self._mlflow.start_run(run_name=self._run_name)
        # MLflow refuses parameters of more than 500 characters.
        self._mlflow.log_params({name: str(value)[:500] for name, value in _flat(config)})

    def on_round(self, record: Mapping[str, Any]) -> None:
        """Log the round's figures."""
        self._mlflow.log_metrics(dict(_numbers(_watched(record))), step=int(record["round"]))

    def on_end(self, metrics: Mapping[str, Any]) -> None:
        """Log the final figures."""
        self._mlflow.log_metrics(dict(_numbers(_final(metrics))))
        self._failed = False

    def close(self) -> None:
        """End the run; a training that failed is marked so."""
        self._mlflow.end_run(status="FAILED" if self._failed else "FINISHED")


class TensorBoardCallback(Callback):
    """Writes the rounds for TensorBoard: ``train(…, callbacks=[TensorBoardCallback("logs")])``.

    Parameters
    ----------
    folder
        Where the event files go.
    """

    def __init__(self, folder: str | Path = "runs/tensorboard") -> None:
        _extra("tensorboard", "tensorboard")
        self._writer: Any = _extra("torch.utils.tensorboard", "tensorboard").SummaryWriter(str(folder))

    def on_round(self, record: Mapping[str, Any]) -> None:
        """Write the round's figures."""
        for name, value in _numbers(_watched(record)):
            self._writer.add_scalar(name, value, int(record["round"]))

    def on_end(self, metrics: Mapping[str, Any]) -> None:
        """Write the final figures."""
        for name, value in _numbers(_final(metrics)):
            self._writer.add_scalar(name, value, int(metrics["rounds"]))

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


def _extra(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise GlocalfairError(f"This needs an extra: pip install 'glocalfair[{name}]' ({error}).") from error


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Give the leaves of nested mappings with their path.

    >>> list(_flat({"eod": {"sex": 0.1}, "loss": 0.5}))
    [('eod/sex', 0.1), ('loss', 0.5)]
    """
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", value


def _numbers(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Give the leaves that are finite numbers, under names that every tracker accepts."""
    for name, value in _flat(values):
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf"):
            yield re.sub(r"[^\w\-. /]", "_", name.replace("×", " x ")), float(value)


def _watched(record: Mapping[str, Any]) -> dict[str, Any]:
    return {"loss": record.get("loss"), "validation": record.get("validation", {})}


def _final(metrics: Mapping[str, Any]) -> dict[str, Any]:
    shown = ("accuracy", "balanced_accuracy", "positive_rate", "eod", "dpd", "dp_dis")
    local = {name: metrics["local"][name] for name in (*shown, "dis")}
    means = {name: _means(value) for name, value in local.items()}
    return {"global": {name: metrics["global"][name] for name in shown}, "local": means}


def _means(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return value["mean"] if "mean" in value else {key: _means(inner) for key, inner in value.items()}
