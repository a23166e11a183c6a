"""A federation's model on somebody's own table, before they join."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from glocalfair.bundle import Bundle
from glocalfair.data.frame.reading import read
from glocalfair.metrics import summarise, tables
from glocalfair.metrics.tables import Tables


def evaluate(bundle: Path, data: Path, seed: int = 0) -> tuple[dict[str, Any], list[str]]:
    """Return the figures of a model on a table, and what of the table does not fit the model.

    Parameters
    ----------
    bundle
        A model bundle or the directory of a run.
    data
        A table with the label and the sensitive columns of the model's schema.
    seed
        Of intervals and noise floors.
    """
    found = Bundle.load(bundle)
    frame = read(data, missing_values=found.schema.missing_values)
    dataset, misfit = found.schema.read(frame)
    known = (found.schema.read_label(frame) >= 0) & (found.schema.read_groups(frame) >= 0).all(axis=1)
    predicted = (found.predict(frame.filter(known)).probability > 0.5).astype(int)
    counted = tables(dataset.label, predicted, dataset.groups, dataset.attributes)
    nobody = Tables(counted.attributes, np.zeros((0, *counted.counts.shape[1:]), dtype=np.int64))
    result: dict[str, Any] = summarise(counted, nobody, [], seed=seed)["global"]
    return result, misfit.lines()
