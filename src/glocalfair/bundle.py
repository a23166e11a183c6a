"""One file with a trained model and everything that makes inputs of a table: safetensors with JSON, no pickle.

A bundle from somebody else cannot run code: a model is built from its name and sizes, and a model of the user's own
(``package.module:factory``) is imported only if the reader allows it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from glocalfair.data.encoder import Encoder
from glocalfair.data.frame.reading import as_polars
from glocalfair.data.frame.schema import FrameSchema, Misfit
from glocalfair.errors import GlocalfairError
from glocalfair.runs import jsonable, read_safetensors, write_atomically
from glocalfair.types import Dataset

if TYPE_CHECKING:
    from torch import nn

    from glocalfair.models import Factory

NAME = "model.glocalfair"
"""How a bundle is called in a run directory."""
FORMAT = 1
_CHUNK = 65_536


def preprocessing(dataset: Dataset, encoder: Encoder | None) -> dict[str, Any]:
    """Return what a federation knows about its inputs: how they were read and encoded; empty for pictures."""
    if encoder is None:
        return dict(dataset.about)
    return {"schema": FrameSchema.of(dataset).to_dict(), **dataset.about, "encoder": encoder.to_dict()}


class Predictions(NamedTuple):
    """Probabilities of the positive label, and what of the table did not fit the model."""

    probability: npt.NDArray[np.float64]
    misfit: Misfit


@dataclass(frozen=True, eq=False)
class Bundle:
    """A model with its preprocessing.

    Attributes
    ----------
    tensors
        The weights by name.
    encoder, schema
        From a table to the inputs.
    model
        ``name`` and ``hidden`` of the model.
    about
        Plain values: method, seed, version.
    """

    tensors: Mapping[str, npt.NDArray[Any]]
    encoder: Encoder
    schema: FrameSchema
    model: Mapping[str, Any]
    about: Mapping[str, Any] = field(default_factory=dict)

    def save(self, path: str | Path) -> None:
        """Write the bundle in one step."""
        from safetensors.numpy import save

        header = {
            "bundle": FORMAT,
            "encoder": self.encoder.to_dict(),
            "schema": self.schema.to_dict(),
            "model": dict(self.model),
            "about": dict(self.about),
        }
        tensors = {name: np.ascontiguousarray(tensor) for name, tensor in self.tensors.items()}
        write_atomically(Path(path), save(tensors, {"glocalfair": json.dumps(jsonable(header))}))

    @classmethod
    def load(cls, path: str | Path) -> Bundle:
        """Read a bundle, or the bundle of a run directory; anything else is a clear error."""
        path = Path(path)
        path = path / NAME if path.is_dir() else path
        if not path.is_file():
            raise GlocalfairError(f"There is no model bundle '{path}'.")
        tensors, header = read_safetensors(path)
        if header.get("bundle") != FORMAT:
            raise GlocalfairError(f"'{path}' is no model bundle of this version (it lacks its preprocessing).")
        try:
            encoder = Encoder.from_dict(header["encoder"])
            model, about = dict(header["model"]), dict(header["about"])
            checked = (str(model["name"]), tuple(int(size) for size in model["hidden"]))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise GlocalfairError(f"The bundle '{path}' is damaged: {type(error).__name__} {error}.") from error
        schema = FrameSchema.from_dict(header.get("schema", {}))
        if len(checked[1]) > 1000 or not all(1 <= size < 2**31 for size in checked[1]):
            raise GlocalfairError(f"The bundle '{path}' is damaged: its model has impossible layers.")
        if not np.isfinite([*encoder.mean, *encoder.std]).all() or min(encoder.std, default=0.0) < 0:
            raise GlocalfairError(f"The bundle '{path}' is damaged: a mean or standard deviation is no finite number.")
        columns = len(encoder.numeric)
        if {columns} != {len(encoder.mean), len(encoder.std), len(encoder.indicator)}:
            raise GlocalfairError(f"The bundle '{path}' is damaged: its encoder has parts of different lengths.")
        if set(encoder.numeric) - set(schema.numeric) or dict(encoder.categories) != dict(schema.categorical):
            raise GlocalfairError(f"The bundle '{path}' is damaged: its encoder and schema do not belong together.")
        return cls(tensors, encoder, schema, {"name": checked[0], "hidden": checked[1]}, about)

    def module(self, allow_import: bool = False, factory: Factory | None = None) -> nn.Module:
        """Build the model with its weights, ready to predict.

        Parameters
        ----------
        allow_import
            Whether a model of the user's own may be imported, which runs its code.
        factory
            The function that makes the model, instead of an import.
        """
        import torch

        from glocalfair import models
        from glocalfair.layout import Layout

        name, inputs = str(self.model["name"]), len(self.encoder.names)
        if ":" in name and factory is None and not allow_import:
            raise GlocalfairError(
                f"The bundle's model '{name}' is code that is not in the bundle. If you trust it, allow the import "
                "with --allow-import."
            )
        # A built-in model is first laid out without memory: sizes from a file are to be checked before they are used.
        with torch.device("cpu" if ":" in name else "meta"):
            module = models.build(name, inputs, 0, tuple(self.model["hidden"]), factory)
        layout = Layout.of(module)
        shapes = {key: tuple(tensor.shape) for key, tensor in self.tensors.items()}
        if shapes != dict(zip(layout.names, layout.shapes, strict=True)):
            raise GlocalfairError(f"The bundle's weights do not fit its model '{name}' with {inputs} inputs.")
        module.load_state_dict({k: torch.from_numpy(np.array(v)) for k, v in self.tensors.items()}, False, True)
        return module.eval()

    def predict(self, frame: Any, module: nn.Module | None = None, allow_import: bool = False) -> Predictions:
        """Predict the rows of a table (a frame, a mapping of columns or a file).

        Parameters
        ----------
        frame
            The table; it needs the columns that the model was trained with, in any order.
        module
            The model, if `module` was called before.
        allow_import
            See `module`.
        """
        import torch

        dataset, misfit = self.schema.read_inputs(as_polars(frame))
        module = self.module(allow_import) if module is None else module.eval()
        dtype = next(module.parameters()).dtype
        parts = []
        with torch.no_grad():
            for start in range(0, len(dataset), _CHUNK):
                rows = slice(start, start + _CHUNK)
                x = torch.from_numpy(self.encoder.transform(_rows(dataset, rows))).to(dtype)
                parts.append(torch.sigmoid(module(x).reshape(-1).double()).numpy())
        return Predictions(np.concatenate(parts) if parts else np.empty(0), misfit)


def _rows(dataset: Dataset, rows: slice) -> Dataset:
    """Cut a dataset without labels: only a part of a large table is encoded at a time."""
    return Dataset(
        dataset.name,
        dataset.numeric[rows],
        dataset.numeric_names,
        dataset.categorical[rows],
        dataset.categories,
        dataset.label[rows],
        dataset.groups[rows],
        dataset.attributes,
    )
