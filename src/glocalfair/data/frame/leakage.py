"""Columns that give the label away: copies of it, and what is only known afterwards."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from glocalfair.rng import generator
from glocalfair.types import Dataset

SUSPICIOUS = 0.9
"""A column that alone removes so much of the error of a constant guess gives the label away."""
TOO_GOOD = 0.625
"""From here on a column is worth a look: honest columns of real tables seldom remove a quarter."""
_ROWS = 100_000
_LEAST = 5
_NAMES = re.compile(r"score|predict|outcome|target|label|decision|decile|result", re.I)


def leaks(dataset: Dataset, least: float = SUSPICIOUS) -> dict[str, float]:
    """Return the columns that predict the label (nearly) perfectly: name → share of the error they remove.

    Numbers are tried with their best threshold, categories with their best guess for each value; a missing value
    is a value of its own. Large tables are sampled.

    >>> y = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
    >>> x = np.stack([y * 2.0 + 1, np.arange(10) % 3], axis=1)
    >>> empty = np.zeros((10, 0), dtype=int)
    >>> leaks(Dataset("d", x, ("copy", "other"), empty, (), y, empty, ()))
    {'copy': 1.0}
    """
    rows = np.arange(len(dataset))
    if len(rows) > _ROWS:
        rows = generator(0, "leakage").choice(len(rows), _ROWS, replace=False)
    y = dataset.label[rows].astype(bool)
    wrong = min(int(y.sum()), int((~y).sum()))
    if wrong < _LEAST:
        return {}
    found = {}
    for j, name in enumerate(dataset.numeric_names):
        found[name] = 1 - _threshold_errors(dataset.numeric[rows, j], y) / wrong
    for j, (name, values) in enumerate(dataset.categories):
        if len(values) * _LEAST <= len(rows):
            found[name] = 1 - _table_errors(dataset.categorical[rows, j], y) / wrong
    return {name: float(gain) for name, gain in found.items() if gain >= least}


def _table_errors(codes: npt.NDArray[np.integer], y: npt.NDArray[np.bool_]) -> int:
    """Errors of the best guess for each code."""
    positive = np.bincount(codes[y], minlength=int(codes.max()) + 1)
    return int(np.minimum(positive, np.bincount(codes, minlength=len(positive)) - positive).sum())


def _threshold_errors(x: npt.NDArray[np.floating], y: npt.NDArray[np.bool_]) -> int:
    """Errors of the best rule "above a threshold", either way round, with a guess of its own for missing values."""
    missing = np.isnan(x)
    errors = min(int((missing & y).sum()), int((missing & ~y).sum()))
    x, y = x[~missing], y[~missing]
    if not len(x):
        return errors
    order = np.argsort(x, kind="stable")
    last = np.append(np.diff(x[order]) > 0, True)
    positives = np.cumsum(y[order])[last]
    below = (np.flatnonzero(last) + 1).astype(np.int64)
    # Predict positive above the threshold: wrong are the positives below it and the negatives above it.
    above = positives + ((len(y) - below) - (y.sum() - positives))
    best = min(int(above.min()), int((len(y) - above).min()), int(y.sum()), int((~y).sum()))
    return errors + best


def namesakes(label: str, names: list[str]) -> list[str]:
    """Return columns whose name suggests another model's output or something about the label itself.

    >>> namesakes("two_year_recid", ["is_recid", "decile_score", "age"])
    ['is_recid', 'decile_score']
    """
    words = {word for word in re.split(r"[\W_]+", label.lower()) if len(word) >= 5}
    found = []
    for name in names:
        own = set(re.split(r"[\W_]+", name.lower()))
        if words & own or _NAMES.search(name):
            found.append(name)
    return found
