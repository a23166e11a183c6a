"""Random rows for the tests, adversarial ones among them: empty groups, one class, one client, one row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st


@dataclass(frozen=True)
class Rows:
    y: np.ndarray
    p: np.ndarray
    g: np.ndarray
    c: np.ndarray
    groups: int
    clients: int


@st.composite
def rows(draw: st.DrawFn, groups: int | None = None, least: int = 1) -> Rows:
    size = draw(st.integers(least, 60))
    many = groups or draw(st.integers(1, 5))
    clients = draw(st.integers(1, 4))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    # Shares of 0 and 1 make one-class labels and constant classifiers.
    share = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])
    y = (random.random(size) < draw(share)).astype(int)
    p = (random.random(size) < draw(share)).astype(int)
    used = draw(st.lists(st.integers(0, many - 1), min_size=1, max_size=many, unique=True))
    g, c = random.choice(used, size), random.integers(0, clients, size)
    return Rows(y, p, g, c, many, clients)
