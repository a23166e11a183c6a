"""Rows become integers here, once: every metric is a function of these counts and of nothing else.

A table has the shape ``[..., groups, 2, 2]``: group, true label, predicted label. Counts can be added over
folds, clients and sites without error, which rates cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from glocalfair.errors import GlocalfairError, invalid
from glocalfair.types import Attribute

Counts = npt.NDArray[np.int64]
"""A table of counts, ``[..., groups, 2, 2]``."""

MAX_GROUPS = 4096
"""More combinations than this are a mistake in the list of attributes, not an audit."""


def _binary(name: str, values: npt.ArrayLike) -> Counts:
    """Return labels as integers, or refuse what is not 0 and 1."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise invalid(name, "one label for each row", array.shape, "That is the shape which came.")
    if not np.all((array == 0) | (array == 1)):
        found = [str(value) for value in np.unique(array)]
        shown = ", ".join(found[:5]) + (", …" if len(found) > 5 else "")
        raise GlocalfairError(
            f"Binary classification only for now: '{name}' must hold 0 and 1 alone. Got {shown} instead."
        )
    return array.astype(np.int64)


def _codes(name: str, values: npt.ArrayLike, size: int, rows: int) -> Counts:
    """Return integer codes of 0 … size−1, one for each row."""
    array = np.asarray(values)
    if array.shape != (rows,):
        raise invalid(name, f"one code for each of the {rows} rows", array.shape, "That is the shape which came.")
    if rows and not np.issubdtype(array.dtype, np.integer):
        raise invalid(name, "whole numbers", str(array.dtype))
    if rows and (array.min() < 0 or array.max() >= size):
        raise invalid(name, f"codes from 0 to {size - 1}", (int(array.min()), int(array.max())))
    return array.astype(np.int64)


def count(
    y: npt.ArrayLike,
    prediction: npt.ArrayLike,
    codes: npt.ArrayLike,
    groups: int,
    client: npt.ArrayLike | None = None,
    clients: int = 1,
) -> Counts:
    """Count rows by client, group, true label and predicted label.

    Parameters
    ----------
    y, prediction
        0 or 1 for each row.
    codes
        The group of each row, 0 … `groups` − 1.
    groups
        How many groups there are; a group without rows keeps its place, with zeros.
    client
        The client of each row, 0 … `clients` − 1; None puts every row at client 0.
    clients
        How many clients there are.

    Returns
    -------
    int64 array ``[clients, groups, 2 (y), 2 (prediction)]``

    Examples
    --------
    >>> count([1, 1, 0, 0], [1, 0, 0, 1], [0, 0, 1, 1], groups=2)[0].tolist()
    [[[0, 0], [1, 1]], [[1, 1], [0, 0]]]
    """
    label, predicted = _binary("y", y), _binary("prediction", prediction)
    rows = len(label)
    if len(predicted) != rows:
        raise invalid("prediction", f"one label for each of the {rows} rows", len(predicted))
    group = _codes("groups", codes, groups, rows)
    owner = np.zeros(rows, np.int64) if client is None else _codes("client", client, clients, rows)
    return _tally(owner * groups + group, label, predicted, clients * groups).reshape(clients, groups, 2, 2)


def count_each(y: Counts, predictions: npt.NDArray[np.bool_], codes: Counts, groups: int) -> Counts:
    """Count several predictions ``[models, rows]`` for the same rows; labels and codes are taken as they are.

    >>> y, codes = np.array([1, 0]), np.array([0, 0])
    >>> count_each(y, np.array([[True, True], [False, True]]), codes, groups=1).tolist()
    [[[[0, 1], [0, 1]]], [[[0, 1], [1, 0]]]]
    """
    models = len(predictions)
    place = codes + groups * np.arange(models)[:, None]
    return _tally(place, y, predictions, models * groups).reshape(models, groups, 2, 2)


def _tally(place: Counts, label: Counts, predicted: npt.NDArray[Any], places: int) -> Counts:
    """Count by place, true label and predicted label."""
    cell = (2 * place + label) * 2 + predicted
    return np.bincount(cell.ravel(), minlength=4 * places).astype(np.int64)


def intersection(groups: npt.ArrayLike, attributes: Sequence[Attribute]) -> tuple[Counts, Attribute]:
    """Cross the attributes: one code for each combination of values, also for those nobody has.

    The first attribute varies slowest, so that `marginal` can undo it.

    Examples
    --------
    >>> sex, race = Attribute("sex", ("Female", "Male")), Attribute("race", ("Black", "White"))
    >>> codes, both = intersection([[0, 1], [1, 0]], [sex, race])
    >>> both.name, [both.values[code] for code in codes]
    ('sex×race', ['Female×White', 'Male×Black'])
    """
    matrix = np.asarray(groups)
    if matrix.ndim != 2 or matrix.shape[1] != len(attributes):
        raise invalid("groups", f"a matrix of rows × {len(attributes)} attributes", matrix.shape)
    crossed = joint(attributes)
    codes = np.zeros(len(matrix), np.int64)
    for column, attribute in enumerate(attributes):
        size = len(attribute.values)
        codes = codes * size + _codes(f"groups: {attribute.name}", matrix[:, column], size, len(matrix))
    return codes, crossed


def joint(attributes: Sequence[Attribute]) -> Attribute:
    """Name the intersection of the attributes and its values.

    >>> joint([Attribute("sex", ("F", "M")), Attribute("old", ("no", "yes"))]).values
    ('F×no', 'F×yes', 'M×no', 'M×yes')
    """
    groups = prod(len(attribute.values) for attribute in attributes)
    if groups > MAX_GROUPS:
        raise invalid(
            "sensitive",
            f"attributes with at most {MAX_GROUPS} combinations",
            groups,
            "List fewer attributes.",
        )
    values = tuple("×".join(values) for values in product(*(attribute.values for attribute in attributes)))
    return Attribute("×".join(attribute.name for attribute in attributes), values)


def marginal(table: Counts, attributes: Sequence[Attribute], index: int) -> Counts:
    """Sum a table of the intersection to the table of one of its attributes.

    >>> sex, old = Attribute("sex", ("F", "M")), Attribute("old", ("no", "yes"))
    >>> table = np.arange(16).reshape(4, 2, 2)
    >>> marginal(table, [sex, old], 0)[0].tolist() == (table[0] + table[1]).tolist()
    True
    """
    sizes = [len(attribute.values) for attribute in attributes]
    spread = table.reshape(*table.shape[:-3], *sizes, 2, 2)
    first = spread.ndim - 2 - len(sizes)
    others = tuple(first + axis for axis in range(len(sizes)) if axis != index)
    return spread.sum(axis=others) if others else spread
