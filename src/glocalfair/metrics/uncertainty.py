"""How much of a figure is chance: bootstrap intervals and the noise floor of a perfectly fair model.

A gap between two finite groups is never negative, so even a perfectly fair model shows one. The noise floor
is its expected size for these very group sizes; what a model can be blamed for is the excess over it.
"""

from __future__ import annotations

import numpy as np

from glocalfair.metrics import defined
from glocalfair.metrics.catalogue import Fair, Function, metric
from glocalfair.metrics.counts import Counts
from glocalfair.metrics.defined import Array
from glocalfair.metrics.rates import fpr, pooled, positive_rate, tpr


def resample(table: Counts, generator: np.random.Generator, draws: int = 1000) -> Counts:
    """Draw rows with replacement: tables ``[draws, ..., groups, 2, 2]`` with as many rows as each table has.

    Resampling rows is a multinomial draw over the cells, so the rows are not needed.

    Examples
    --------
    >>> from glocalfair.rng import generator
    >>> table = np.array([[[8, 2], [1, 3]], [[9, 1], [0, 0]]])
    >>> samples = resample(table, generator(0, "bootstrap"), draws=5)
    >>> samples.shape, samples.sum(axis=(1, 2, 3)).tolist(), int(samples[:, 1, 1].sum())
    ((5, 2, 2, 2), [24, 24, 24, 24, 24], 0)
    """
    lead = table.shape[:-3]
    cells = table.reshape(*lead, -1)
    total = cells.sum(axis=-1)
    shares = np.nan_to_num(defined.ratio(cells, total[..., None]))
    return generator.multinomial(total, shares, size=(draws, *lead)).reshape(draws, *table.shape)


def interval(samples: Array, level: float = 0.95) -> tuple[Array, Array]:
    """Return the percentile interval of draws ``[draws, ...]``, over the draws that are defined.

    >>> low, high = interval(np.linspace(0, 1, 101), level=0.9)
    >>> float(low).__round__(6), float(high).__round__(6)
    (0.05, 0.95)
    """
    tail = (1 - level) / 2
    return defined.quantile(samples, tail), defined.quantile(samples, 1 - tail)


def bootstrap(
    table: Counts,
    function: Function,
    generator: np.random.Generator,
    draws: int = 1000,
    level: float = 0.95,
) -> tuple[Array, Array]:
    """Return the bootstrap interval of a metric; one for each leading index of the table.

    For gaps the interval shares their upward bias: near 0 it lies above the true value. Read it beside the
    noise floor.

    Examples
    --------
    >>> from glocalfair.metrics import dpd
    >>> from glocalfair.rng import generator
    >>> table = np.array([[[400, 100], [100, 400]], [[450, 50], [250, 250]]])
    >>> low, high = bootstrap(table, dpd, generator(0))
    >>> bool(low < dpd(table) < high)
    True
    """
    return interval(function(resample(table, generator, draws)), level)


def fair_draws(table: Counts, fair: Fair, generator: np.random.Generator, draws: int = 1000) -> Counts:
    """Draw the tables of a perfectly fair model: ``[draws, ..., groups, 2, 2]``.

    Each group keeps its own positives and negatives. ``"odds"``: every group has the pooled TPR and FPR.
    ``"parity"``: every row is predicted positive with the pooled rate, whatever its group and label.

    Examples
    --------
    >>> from glocalfair.rng import generator
    >>> table = np.array([[[8, 2], [1, 3]], [[9, 1], [0, 0]]])
    >>> fair = fair_draws(table, "odds", generator(0), draws=3)
    >>> fair.sum(axis=-1).tolist() == [table.sum(axis=-1).tolist()] * 3
    True
    """
    size = table.sum(axis=-1)
    overall = pooled(table)
    both = [positive_rate(overall)] * 2 if fair == "parity" else [fpr(overall), tpr(overall)]
    chance = np.nan_to_num(np.stack(both, axis=-1))[..., None, :]
    # Draws lie last in memory: numpy prepares a binomial anew whenever its parameters change, and sums over
    # groups run along a long axis.
    shape = (*size.shape, draws)
    positive = generator.binomial(size[..., None], chance[..., None], size=shape)
    cells = np.stack([size[..., None] - positive, positive], axis=-2)
    return np.moveaxis(cells, -1, 0)


def noise_floor(table: Counts, name: str, generator: np.random.Generator, draws: int = 1000) -> Array:
    """Return the expected magnitude of a metric for a perfectly fair model with the same group sizes.

    One value for each leading index (client); NaN where the metric is undefined. For the signed
    `equal_opportunity` it is the mean of the absolute value.

    Examples
    --------
    >>> from glocalfair.rng import generator
    >>> table = np.array([[[400, 100], [100, 400]], [[450, 50], [250, 250]]])
    >>> float(noise_floor(table, "eod", generator(0))).__round__(2)
    0.03
    """
    line = metric(name)
    if line.fair is None:
        raise ValueError(f"'{name}' does not compare groups, so it has no noise floor.")
    return defined.mean(np.abs(line.function(fair_draws(table, line.fair, generator, draws))))


def excess(table: Counts, name: str, generator: np.random.Generator, draws: int = 1000) -> Array:
    """Return the magnitude of a metric minus its noise floor; about 0 or below is what chance explains.

    Examples
    --------
    >>> from glocalfair.rng import generator
    >>> table = np.array([[[400, 100], [100, 400]], [[450, 50], [250, 250]]])
    >>> float(excess(table, "eod", generator(0))).__round__(2)  # EOD .3
    0.27
    """
    return np.asarray(np.abs(metric(name).function(table)) - noise_floor(table, name, generator, draws))
