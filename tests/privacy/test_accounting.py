"""ε against the exact curve of the Gaussian mechanism."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from glocalfair.errors import GlocalfairError
from glocalfair.privacy import PrivacyConfig, accounting, epsilon, spent


def exact(noise_multiplier: float, delta: float) -> float:
    """Return the smallest ε of one Gaussian mechanism: Balle and Wang 2018, theorem 8."""
    z = noise_multiplier

    def excess(e: float) -> float:
        # In logarithms: e^ε alone would overflow for little noise.
        tail = np.exp(e + stats.norm.logcdf(-1 / (2 * z) - e * z))
        return float(stats.norm.cdf(1 / (2 * z) - e * z) - tail - delta)

    if excess(0.0) <= 0:
        return 0.0
    return float(optimize.brentq(excess, 0.0, 1e5))


def renyi(noise_multiplier: float, delta: float) -> float:
    """Return the smallest ε of the Gaussian mechanism by Rényi divergences of any order (Canonne et al. 2020)."""
    z = noise_multiplier

    def bound(log: float) -> float:
        a = 1 + math.exp(log)
        return a / (2 * z**2) + math.log1p(-1 / a) - (math.log(delta) + math.log(a)) / (a - 1)

    return float(optimize.minimize_scalar(bound, bounds=(-6, 6), method="bounded").fun)


@pytest.mark.parametrize("z", [0.3, 0.5, 1.0, 2.0, 5.0, 10.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-8])
def test_one_release_is_the_closed_form(z: float, delta: float) -> None:
    found = epsilon(z, delta, 1)
    assert found == pytest.approx(renyi(z, delta), rel=0.01)
    assert exact(z, delta) <= found <= 1.5 * exact(z, delta)


@pytest.mark.parametrize("releases", [2, 9, 400])
def test_many_releases_are_one_with_less_noise(releases: int) -> None:
    # N Gaussian mechanisms with z compose to one with z/√N, exactly.
    together = exact(4.0 / math.sqrt(releases), 1e-5)
    assert together <= epsilon(4.0, 1e-5, releases) <= 1.5 * together


@given(
    z=st.floats(0.3, 20),
    delta=st.sampled_from([1e-3, 1e-5, 1e-7]),
    releases=st.integers(1, 500),
)
def test_more_noise_is_better_and_more_rounds_are_worse(z: float, delta: float, releases: int) -> None:
    here = epsilon(z, delta, releases)
    assert 0 <= epsilon(1.3 * z, delta, releases) <= here <= epsilon(z, delta, releases + 1) < math.inf
    assert here <= epsilon(z, delta / 10, releases)


def test_a_secret_sample_helps() -> None:
    spent = [epsilon(1.0, 1e-5, 100, rate) for rate in (0.01, 0.1, 0.5, 1.0)]
    assert spent == sorted(spent) and spent[0] < spent[-1] / 10


@pytest.mark.parametrize(("z", "rate"), [(0.8, 0.3), (2.0, 0.75), (1.1, 0.01)])
def test_a_secret_sample_is_a_mixture(z: float, rate: float) -> None:
    # With probability `rate` the noise has mean 1, else 0: its Rényi divergence from noise of mean 0, by quadrature.
    x = np.linspace(-12 * z, 12 * z + 10, 200_001)
    ratio = 1 - rate + rate * np.exp((2 * x - 1) / (2 * z**2))
    for order in (2, 5, 9):
        mean = np.trapezoid(stats.norm.pdf(x, scale=z) * ratio**order, x)
        found = accounting._renyi(z, rate)[accounting.SAMPLED.index(order)]
        assert found == pytest.approx(np.log(mean) / (order - 1), rel=1e-6)


def test_nothing_sent_and_no_noise() -> None:
    assert epsilon(1.0, 1e-5, 0) == 0
    assert epsilon(0.0, 1e-5, 3) == math.inf


def test_the_client_that_was_asked_most() -> None:
    settings = PrivacyConfig(clip=1.0, noise_multiplier=2.0)
    assert spent(settings, [("a", "b"), ("a", "c"), ("c",), ("c",)], 3) == epsilon(2.0, 1e-5, 3)
    outsider = PrivacyConfig(clip=1.0, noise_multiplier=2.0, observer="outsider")
    assert spent(outsider, [("a", "b"), ("a", "c")], 3) == epsilon(2.0, 1e-5, 2, 2 / 3)
    assert spent(settings, [], 3) == spent(outsider, [], 3) == 0


def test_without_opacus(monkeypatch: pytest.MonkeyPatch) -> None:
    accounting._renyi.cache_clear()
    monkeypatch.setitem(sys.modules, "opacus.accountants.analysis", None)
    with pytest.raises(GlocalfairError, match=r"pip install 'glocalfair\[dp\]'"):
        epsilon(1.0, 1e-5, 1)
