"""From Gini coefficients to weights of clients: eq. 17 and 18, normalised or to the letter."""

from __future__ import annotations

from typing import Literal

import numpy as np

from glocalfair.aggregation.average import normalise
from glocalfair.aggregation.clusters import cluster
from glocalfair.types import Floats, Ints

Scale = Literal["raw", "standardised"]
Mass = Literal["examples", "equal", "literal"]


def favour(
    values: Floats, examples: Floats, gamma: float, clusters: int | None, scale: Scale, mass: Mass
) -> tuple[Floats, Ints]:
    """Weigh clients by e^{−γ Ḡ}, with Ḡ the mean Gini coefficient of a client's cluster.

    Parameters
    ----------
    values, examples
        Gini coefficient G_k and number of examples d_k of each client.
    gamma
        γ; 0 gives FedAvg's weights bit for bit (with mass ``"examples"``).
    clusters
        Number of clusters; None for the elbow.
    scale
        ``"raw"``, or ``"standardised"``: in standard deviations over these clients, 0 if they are all equal.
    mass
        ``"examples"``: d_k e^{−γ Ḡ(k)} / Σ_l d_l e^{−γ Ḡ(l)}. ``"equal"``: every cluster counts alike before γ.
        ``"literal"``: the same without a normaliser, so that the weights need not sum to 1.

    Returns
    -------
    weights, labels
        One of each for every client.

    Examples
    --------
    >>> weights, labels = favour(np.array([0.0, 0.8, 0.8]), np.ones(3), 1.0, None, "raw", "examples")
    >>> weights.round(2).tolist(), labels.tolist()
    ([0.53, 0.24, 0.24], [0, 1, 1])
    """
    labels = cluster(values, clusters)
    means = np.bincount(labels, values) / np.bincount(labels)
    if scale == "standardised":
        spread = values.std()
        means = (means - values.mean()) / spread if spread > 1e-12 else np.zeros_like(means)
    liked = np.exp(-gamma * means)[labels]
    if mass == "examples":
        return normalise(examples * liked), labels
    within = examples / np.bincount(labels, examples)[labels] * liked
    return (normalise(within) if mass == "equal" else within), labels
