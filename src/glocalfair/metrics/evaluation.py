"""The result of a run: every metric, global and local, with its uncertainty, as one nested dictionary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from glocalfair.errors import invalid
from glocalfair.metrics import defined
from glocalfair.metrics.catalogue import FAIRNESS, PERFORMANCE, Fair, Metric, worst_pair
from glocalfair.metrics.counts import Counts
from glocalfair.metrics.defined import Array
from glocalfair.metrics.fairness import dis
from glocalfair.metrics.rates import pooled
from glocalfair.metrics.tables import Tables, split, tables, with_intersection
from glocalfair.metrics.uncertainty import fair_draws, interval, resample
from glocalfair.rng import generator
from glocalfair.types import Attribute

Values = dict[tuple[str, ...], Array]
"""Where a figure stands in the result, such as ``("eod", "sex")``, and its values over the leading axes."""

LOCAL_DRAWS = 200
_CELL_BUDGET = 200_000
_TOGETHER = 2048
"""For so many clients noise floors are drawn at a time: the draws of a hundred thousand would need a gigabyte."""


def measure(counts: Counts, attributes: Sequence[Attribute], metrics: Mapping[str, Metric]) -> Values:
    """Compute metrics from a table of the intersection, for each attribute; leading axes are kept."""
    views = dict(split(counts, attributes))
    values: Values = {}
    for name, line in metrics.items():
        if not line.rates:
            values[name,] = line.function(counts)
            continue
        by = {attribute: line.function(view) for attribute, view in views.items()}
        if line.averaged:
            # The intersection is no further attribute: it stays out of the mean.
            plain = [by[attribute.name] for attribute in attributes]
            values[name,] = defined.mean(np.stack(plain)) if plain else np.full(counts.shape[:-3], np.nan)
        heading = f"{name}_by" if line.averaged else name
        values.update({(heading, attribute): value for attribute, value in by.items()})
    return values


def _floors(counts: Counts, attributes: Sequence[Attribute], seed: int, draws: int, *purpose: str) -> Values:
    """Return the noise floor of every fairness metric; fair to the intersection is fair to its parts."""
    floors: Values = {}
    models: tuple[Fair, ...] = ("odds", "parity")
    for fair in models:
        metrics = {name: line for name, line in FAIRNESS.items() if line.fair == fair}
        random = generator(seed, *purpose, fair)
        found: dict[tuple[str, ...], list[Array]] = {}
        for part in _parts(counts):
            drawn = fair_draws(part, fair, random, draws)
            for path, value in measure(drawn, attributes, metrics).items():
                found.setdefault(path, []).append(defined.mean(np.abs(value)))
        floors.update({path: each[0] if len(each) == 1 else np.concatenate(each) for path, each in found.items()})
    return floors


def _parts(counts: Counts) -> list[Counts]:
    """Cut a table into some clients at a time; draws come client by client, so they stay the same."""
    if counts.ndim == 3 or not len(counts):
        return [counts]
    return [counts[start : start + _TOGETHER] for start in range(0, len(counts), _TOGETHER)]


def _nested(values: Values, write: Callable[[Array], Any] = float) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for path, value in values.items():
        place = result
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = write(value)
    return result


def _spread(value: Array) -> dict[str, float | int]:
    return {
        "mean": float(defined.mean(value)),
        "std": float(defined.std(value)),
        "defined": int(defined.number(value)),
        "clients": len(value),
    }


def _pairs(counts: Counts, attributes: Sequence[Attribute]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for attribute, (name, view) in zip(with_intersection(attributes), split(counts, attributes), strict=True):
        pair = worst_pair(view)
        result[name] = pair and {
            "rate": pair.rate,
            "groups": [attribute.values[pair.low], attribute.values[pair.high]],
            "gap": pair.gap,
        }
    return result


def _global(found: Tables, seed: int, draws: int) -> dict[str, Any]:
    counts, attributes = found.counts.sum(axis=0), found.attributes
    metrics = PERFORMANCE | FAIRNESS
    values = measure(counts, attributes, metrics)
    samples = measure(resample(counts, generator(seed, "bootstrap"), draws), attributes, metrics)
    floors = _floors(counts, attributes, seed, draws, "floor", "global")
    predicted = pooled(counts).sum(axis=0)
    return {
        "examples": int(counts.sum()),
        "constant": bool(counts.sum() > 0 and (predicted == 0).any()),
        **_nested(values),
        "intervals": _nested(samples, lambda value: [float(end) for end in interval(value)]),
        "noise_floor": _nested(floors),
        "excess": _nested({path: np.abs(values[path]) - floor for path, floor in floors.items()}),
        "worst_pair": _pairs(counts, attributes),
    }


def _local(found: Tables, names: Sequence[str], seed: int) -> dict[str, Any]:
    counts, attributes = found.counts, found.attributes
    values = measure(counts, attributes, PERFORMANCE | FAIRNESS)
    # The floors are averaged over clients, so many clients need few draws each.
    draws = int(np.clip(_CELL_BUDGET // max(counts.size // 4, 1), 20, LOCAL_DRAWS))
    floors = _floors(counts, attributes, seed, draws, "floor", "local")
    over = {path: np.abs(values[path]) - floor for path, floor in floors.items()}
    return {
        **_nested(values, _spread),
        "dis": float(dis(counts)),
        "noise_floor": _nested(floors, lambda value: float(defined.mean(value))),
        "excess": _nested(over, lambda value: float(defined.mean(value))),
        "clients": _clients(counts, values, names),
    }


def _clients(counts: Counts, values: Values, names: Sequence[str]) -> list[dict[str, Any]]:
    shown = ("accuracy", "positive_rate", "eod", "dp_dis", "dp_dis_by")
    kept = {path: value.tolist() for path, value in values.items() if path[0] in shown}
    examples = counts.sum(axis=(1, 2, 3)).tolist()
    return [
        {
            "name": name,
            "examples": examples[row],
            **_nested({path: value[row] for path, value in kept.items()}),
        }
        for row, name in enumerate(names)
    ]


def summarise(
    global_tables: Tables,
    local_tables: Tables,
    client_names: Sequence[str],
    *,
    seed: int = 0,
    draws: int = 1000,
) -> dict[str, Any]:
    """Put every metric into one dictionary with the keys ``"global"`` and ``"local"``.

    ``global.<metric>.<attribute>`` is a number; ``local.<metric>.<attribute>`` has mean, std, defined and
    clients. ``intervals``, ``noise_floor`` and ``excess`` mirror the paths of the metrics; excess is
    |metric| − floor. DP-Dis is the mean over the attributes, and each of them stands under ``dp_dis_by``. The
    intersection of the attributes is reported as one more attribute, "sex×race". An undefined figure is NaN,
    an undefined worst pair None.

    Parameters
    ----------
    global_tables
        Counts on the global test set (clients are added up).
    local_tables
        Counts on the clients' own test sets.
    client_names
        A name for each client of `local_tables`.
    seed, draws
        For bootstrap and noise floors; equal seeds give equal figures.

    Examples
    --------
    >>> sex = Attribute("sex", ("Female", "Male"))
    >>> found = Tables((sex,), np.array([[[[8, 2], [1, 3]], [[9, 1], [2, 2]]]]))
    >>> result = summarise(found, found, ["clinic"], draws=100)
    >>> result["global"]["eod"], result["local"]["eod"]["sex"]["defined"]
    ({'sex': 0.25}, 1)
    >>> result["global"]["worst_pair"]["sex"]
    {'rate': 'TPR', 'groups': ['Male', 'Female'], 'gap': 0.25}
    """
    if len(client_names) != local_tables.clients:
        raise invalid("client_names", f"one name for each of {local_tables.clients} clients", len(client_names))
    return {"global": _global(global_tables, seed, draws), "local": _local(local_tables, client_names, seed)}


def evaluate(
    y: npt.ArrayLike,
    prediction: npt.ArrayLike,
    groups: npt.ArrayLike,
    attributes: Sequence[Attribute],
    client: npt.ArrayLike | None = None,
    client_names: Sequence[str] = ("all",),
    *,
    seed: int = 0,
    draws: int = 1000,
) -> dict[str, Any]:
    """Audit the same rows globally and client by client; goes in as in `tables`, comes out as in `summarise`.

    Examples
    --------
    >>> sex = Attribute("sex", ("Female", "Male"))
    >>> result = evaluate([1, 1, 0, 0], [1, 0, 0, 1], [[0], [1], [0], [1]], [sex])
    >>> result["global"]["accuracy"], result["global"]["eod"]["sex"]
    (0.5, 1.0)
    """
    found = tables(y, prediction, groups, attributes, client, len(client_names))
    return summarise(found, found, client_names, seed=seed, draws=draws)
