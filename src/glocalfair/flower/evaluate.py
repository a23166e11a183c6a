"""A federation's model on somebody's own table or pictures, before they join."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from glocalfair.bundle import NAME, Bundle
from glocalfair.data.frame.reading import read
from glocalfair.errors import GlocalfairError
from glocalfair.flower.schema import PublicSchema
from glocalfair.flower.settings import Terms
from glocalfair.flower.table import fit
from glocalfair.metrics import summarise, tables
from glocalfair.metrics.tables import Tables
from glocalfair.options import from_mapping
from glocalfair.runs import RunDirectory, read_safetensors
from glocalfair.types import Dataset, Ints


def evaluate(bundle: Path, data: Path, seed: int = 0) -> tuple[dict[str, Any], list[str]]:
    """Return the figures of a model on a table, and what of the table does not fit the model.

    Parameters
    ----------
    bundle
        A model bundle or the directory of a run; for pictures its ``model.safetensors``.
    data
        A table with the label and the sensitive columns of the model's schema, or a folder of pictures with one.
    seed
        Of intervals and noise floors.
    """
    model = RunDirectory(bundle).model
    weights = model if model.exists() and not (bundle / NAME).exists() else bundle
    if weights.suffix == ".safetensors":
        dataset, predicted, lines = _pictures(weights, data)
    else:
        dataset, predicted, lines = _table(bundle, data)
    counted = tables(dataset.label, predicted, dataset.groups, dataset.attributes)
    nobody = Tables(counted.attributes, np.zeros((0, *counted.counts.shape[1:]), dtype=np.int64))
    result: dict[str, Any] = summarise(counted, nobody, [], seed=seed)["global"]
    return result, lines


def _table(bundle: Path, data: Path) -> tuple[Dataset, Ints, list[str]]:
    found = Bundle.load(bundle)
    frame = read(data, missing_values=found.schema.missing_values)
    dataset, misfit = found.schema.read(frame)
    known = (found.schema.read_label(frame) >= 0) & (found.schema.read_groups(frame) >= 0).all(axis=1)
    predicted = (found.predict(frame.filter(known)).probability > 0.5).astype(int)
    return dataset, predicted, misfit.lines()


def _pictures(path: Path, data: Path) -> tuple[Dataset, Ints, list[str]]:
    import torch

    from glocalfair.local.network import network
    from glocalfair.local.trainer import Trainer, rows_of

    tensors, about = read_safetensors(path)
    schema = PublicSchema.from_dict(about.get("schema", {}))
    if schema.pictures is None:
        raise GlocalfairError(f"'{path}' is no model for pictures. Use the bundle '{NAME}' of the run.")
    terms = from_mapping(Terms, {"run": "", "method": {}, "model": about.get("model", {})}, "key of the model")
    net = network(terms.made_model(schema.shape))
    shapes = dict(zip(net.layout.names, net.layout.shapes, strict=True))
    if {name: tensor.shape for name, tensor in tensors.items()} != shapes:
        raise GlocalfairError(f"The weights in '{path}' do not fit the model that it names.")
    dataset, lines = fit(schema, data)
    assert dataset.images is not None
    values = [len(each.values) for each in dataset.attributes]
    rows = rows_of(dataset.images, dataset.label, dataset.groups, values, torch.float32)
    flat = net.layout.join(tensors)
    logits = Trainer(net, rows).logits(flat, np.arange(len(dataset)))
    return dataset, (logits > 0).astype(int), lines
