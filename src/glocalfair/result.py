"""What `glocalfair.train` returns: the model, its metrics, and ways to keep, show and use them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from glocalfair.bundle import NAME, Bundle
from glocalfair.config import Config
from glocalfair.errors import GlocalfairError
from glocalfair.report.text import at, figure, label, span
from glocalfair.runs import RunDirectory, read_json

if TYPE_CHECKING:
    import polars as pl
    from torch import nn

    from glocalfair.models import Factory

FIGURES = ("accuracy", "balanced_accuracy", "positive_rate", "eod", "dpd", "dp_dis")


@dataclass(frozen=True, eq=False)
class Result:
    """A trained model and how fair it is.

    Attributes
    ----------
    model
        The global model, an `nn.Module` with one logit.
    metrics
        Every metric, ``metrics["global"]["eod"]["sex"]`` and ``metrics["local"]["eod"]["sex"]["mean"]``.
    rounds
        The log, one mapping for each round.
    config
        The complete configuration.
    counts
        The integer counts that the metrics come from.
    bundle
        The model with its preprocessing, if the inputs came from a table; else None.
    holdings
        Who holds what.
    """

    model: nn.Module
    metrics: Mapping[str, Any]
    rounds: Sequence[Mapping[str, Any]]
    config: Config
    counts: Mapping[str, Any]
    bundle: Bundle | None = None
    holdings: Mapping[str, Any] | None = None

    def predict_proba(self, frame: Any) -> npt.NDArray[np.float64]:
        """Return the probability of the positive label for each row of a table (frame, mapping or file)."""
        if self.bundle is None:
            raise GlocalfairError("This model was not trained on a table: call 'model' with its inputs instead.")
        return self.bundle.predict(frame, self.model).probability

    def predict(self, frame: Any, threshold: float = 0.5) -> npt.NDArray[np.str_]:
        """Return the predicted label for each row of a table, as it is spelled in the training table."""
        positive = self.predict_proba(frame) >= threshold
        assert self.bundle is not None
        return np.where(positive, self.bundle.schema.positive, self.bundle.schema.negative)

    def to_frame(self) -> pl.DataFrame:
        """Return the metrics as a polars frame, one row for each figure.

        Columns: ``scope`` (global, local), ``metric``, ``attribute``, ``value`` (local: mean over clients), ``low``
        and ``high`` (95 % interval, global), ``std``, ``defined`` and ``clients`` (local), ``noise_floor``, ``excess``.
        """
        import polars as pl

        return pl.DataFrame(list(self._rows()), schema=_SCHEMA)

    def _rows(self) -> Iterator[dict[str, Any]]:
        for scope in ("global", "local"):
            part = self.metrics[scope]
            for path in _paths(part):
                value = at(part, path)
                low, high = at(part.get("intervals", {}), path) or (None, None)
                spread = value if isinstance(value, Mapping) else {"mean": value}
                yield {
                    "scope": scope,
                    "metric": path[0],
                    "attribute": path[1] if len(path) > 1 else None,
                    "value": spread["mean"],
                    "low": low,
                    "high": high,
                    "std": spread.get("std"),
                    "defined": spread.get("defined"),
                    "clients": spread.get("clients"),
                    "noise_floor": at(part["noise_floor"], path),
                    "excess": at(part["excess"], path),
                }

    def save(self, path: str | Path) -> Path:
        """Write a run directory, as ``glocalfair run`` does; one that holds a run already is refused."""
        directory = RunDirectory.create(Path(path), self.config)
        for record in self.rounds:
            directory.append(record, 0.0)
        if self.holdings is not None:
            directory.save_federation(self.holdings)
        model = {"name": self.config.model.name, "hidden": list(self.config.model.hidden)}
        tensors = {name: tensor.numpy(force=True) for name, tensor in self.model.state_dict().items()}
        directory.save_model({k: v for k, v in tensors.items() if v.dtype.kind == "f"}, {"model": model})
        if self.bundle is not None:
            self.bundle.save(directory.path / NAME)
        directory.save_result({**self.metrics, "run_dir": str(path), "counts": self.counts})
        return directory.path

    @classmethod
    def load(cls, path: str | Path, model: Factory | None = None, allow_import: bool = False) -> Result:
        """Read a run directory of a table: one that `save` or ``glocalfair run`` wrote.

        Parameters
        ----------
        path
            The run directory.
        model
            The function that makes the model, for a model of your own.
        allow_import
            Whether a model of your own may be imported by its name instead, which runs its code.
        """
        directory = RunDirectory.open(Path(path))
        metrics = directory.load_result()
        bundle = Bundle.load(directory.path) if (directory.path / NAME).exists() else None
        if bundle is None:
            raise GlocalfairError(f"The run in '{path}' has no bundle ({NAME}): it was not trained on a table.")
        counts = metrics.pop("counts", {})
        holdings = None
        if directory.federation.exists():
            holdings = read_json(directory.federation)
        return cls(
            model=bundle.module(allow_import, model),
            metrics=metrics,
            rounds=directory.load_rounds(),
            config=directory.load_config(),
            counts=counts,
            bundle=bundle,
            holdings=holdings,
        )

    def report(self, path: str | Path) -> Path:
        """Write the HTML report, one self-contained page."""
        from glocalfair.report.html.build import write_report

        with tempfile.TemporaryDirectory() as folder:
            self.save(Path(folder) / "run")
            write_report([Path(folder) / "run"], Path(path))
        return Path(path)

    def __repr__(self) -> str:
        overall = self.metrics["global"]
        gaps = ", ".join(f"EOD {name} {figure(value)}" for name, value in overall["eod"].items())
        return f"<Result of {self.metrics['method']}: accuracy {figure(overall['accuracy'])}, {gaps or 'no groups'}>"

    def _repr_html_(self) -> str:
        """Show the metrics as a table in a notebook."""
        overall, local = self.metrics["global"], self.metrics["local"]
        rows = []
        for path in _paths(overall):
            mean = at(local, path) or {}
            cells = [
                " ".join([label(path[0]), *path[1:]]),
                figure(at(overall, path)),
                span(at(overall["intervals"], path)),
                figure(at(overall["noise_floor"], path)),
                f"{figure(mean.get('mean'))} ± {figure(mean.get('std'))}",
                f"{mean.get('defined', 0)} of {mean.get('clients', 0)}",
            ]
            rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
        names = ("", "global", "95 % interval", "noise floor", "local", "defined on")
        head = "".join(f"<th>{name}</th>" for name in names)
        title = f"{self.metrics['method']}, {self.metrics['rounds']} rounds"
        body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
        return f"<table><caption>{escape(title)}</caption>{body}</table>"


_SCHEMA = {
    **dict.fromkeys(("scope", "metric", "attribute"), str),
    **dict.fromkeys(("value", "low", "high", "std"), float),
    **dict.fromkeys(("defined", "clients"), int),
    **dict.fromkeys(("noise_floor", "excess"), float),
}


def _paths(part: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name in FIGURES:
        value = part[name]
        if isinstance(value, Mapping) and "mean" not in value:
            yield from ((name, attribute) for attribute in value)
        else:
            yield (name,)
