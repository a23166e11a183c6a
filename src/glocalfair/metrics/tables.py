"""The counts of one evaluation, for every attribute and their intersection, ready to be stored and added."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from glocalfair.errors import GlocalfairError, invalid
from glocalfair.metrics.counts import Counts, count, intersection, joint, marginal
from glocalfair.types import Attribute


@dataclass(frozen=True, eq=False)
class Tables:
    """Counts by client, group, label and prediction.

    Only the intersection of all attributes is held; the table of one attribute is a sum of it.

    Attributes
    ----------
    attributes
        The sensitive attributes, without the intersection.
    counts
        int64 ``[clients, combinations, 2 (y), 2 (prediction)]``, first attribute slowest.
    """

    attributes: tuple[Attribute, ...]
    counts: Counts

    @property
    def clients(self) -> int:
        """The number of clients."""
        return len(self.counts)

    @property
    def reported(self) -> tuple[Attribute, ...]:
        """The attributes, then their intersection if there are two or more."""
        return with_intersection(self.attributes)

    def table(self, name: str) -> Counts:
        """Return ``[clients, groups, 2, 2]`` for an attribute or the intersection."""
        for index, attribute in enumerate(self.attributes):
            if attribute.name == name:
                return marginal(self.counts, self.attributes, index)
        if len(self.attributes) < 2 or name != joint(self.attributes).name:
            raise KeyError(name)
        return self.counts

    def pooled(self) -> Tables:
        """Add the clients up to one."""
        return Tables(self.attributes, self.counts.sum(axis=0, keepdims=True))

    def __add__(self, other: Tables) -> Tables:
        """Pool two evaluations of the same clients, such as two test folds."""
        if self.attributes != other.attributes or self.counts.shape != other.counts.shape:
            raise GlocalfairError("Only counts of the same attributes and as many clients can be added.")
        return Tables(self.attributes, self.counts + other.counts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, for JSON."""
        attributes = [{"name": each.name, "values": list(each.values)} for each in self.attributes]
        return {"attributes": attributes, "counts": self.counts.tolist()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Tables:
        """Read what `to_dict` wrote."""
        attributes = tuple(Attribute(each["name"], tuple(each["values"])) for each in data["attributes"])
        groups = len(joint(attributes).values)
        counts = np.array(data["counts"], dtype=np.int64)
        if counts.size == 0:
            counts = counts.reshape(0, groups, 2, 2)
        if counts.ndim != 4 or counts.shape[1:] != (groups, 2, 2) or (counts < 0).any():
            raise invalid("counts", f"counts of 0 or more, clients × {groups} × 2 × 2", counts.shape)
        return cls(attributes, counts)


def with_intersection(attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
    """Return the attributes, then their intersection if there are two or more.

    >>> sex, race = Attribute("sex", ("F", "M")), Attribute("race", ("B", "W"))
    >>> [each.name for each in with_intersection([sex, race])]
    ['sex', 'race', 'sex×race']
    """
    return (*attributes, joint(attributes)) if len(attributes) > 1 else tuple(attributes)


def split(counts: Counts, attributes: Sequence[Attribute]) -> Iterator[tuple[str, Counts]]:
    """Yield the name and the table of each attribute and of the intersection; leading axes are kept."""
    for index, attribute in enumerate(attributes):
        yield attribute.name, marginal(counts, attributes, index)
    if len(attributes) > 1:
        yield joint(attributes).name, counts


def tables(
    y: npt.ArrayLike,
    prediction: npt.ArrayLike,
    groups: npt.ArrayLike,
    attributes: Sequence[Attribute],
    client: npt.ArrayLike | None = None,
    clients: int = 1,
) -> Tables:
    """Count predictions for every attribute, in each client.

    Parameters
    ----------
    y, prediction
        0 or 1 for each row.
    groups
        Integer codes ``[rows, attributes]``.
    attributes
        The sensitive attributes, in column order.
    client, clients
        The client of each row, 0 … `clients` − 1, and how many there are; None: all rows are one client's.

    Examples
    --------
    >>> sex = Attribute("sex", ("Female", "Male"))
    >>> counted = tables([1, 0], [1, 1], [[0], [1]], [sex])
    >>> counted.table("sex").tolist()
    [[[[0, 0], [0, 1]], [[0, 1], [0, 0]]]]
    """
    names = [attribute.name for attribute in attributes]
    if len(set(names)) < len(names):
        raise invalid("sensitive", "attributes with names of their own", names)
    codes, crossed = intersection(groups, attributes)
    return Tables(tuple(attributes), count(y, prediction, codes, len(crossed.values), client, clients))
