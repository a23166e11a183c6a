"""Clip and noise: bounds, distribution, and what is left alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from glocalfair.errors import GlocalfairError
from glocalfair.privacy import PrivacyConfig, privatise, secure_normal, secure_source, seeded_normal
from glocalfair.types import ClientUpdate

floats = st.floats(-1e6, 1e6, width=32)


def update(weights: np.ndarray, **payload: float) -> ClientUpdate:
    return ClientUpdate("a", weights, 7, payload)


def never(size: int) -> np.ndarray:
    raise AssertionError("noise was drawn")


@given(
    received=arrays.arrays(np.float32, 6, elements=st.floats(-10, 10, width=32)),
    step=arrays.arrays(np.float32, 6, elements=floats),
    clip=st.floats(1e-3, 1e3),
)
def test_no_step_is_longer_than_the_bound(received: np.ndarray, step: np.ndarray, clip: float) -> None:
    trained = received + step
    sent, told = privatise(update(trained), received, 6, PrivacyConfig(clip=clip), never)
    moved = sent.weights.astype(float) - received
    # Weights are float32: each may be off by half a unit in its last place.
    assert np.linalg.norm(moved) <= clip + np.linalg.norm(np.spacing(np.abs(sent.weights)))
    assert told["norm"] == pytest.approx(np.linalg.norm(trained.astype(float) - received))
    assert told["clipped"] == (told["norm"] > clip)
    # The direction stays.
    assert moved @ (trained.astype(float) - received) >= 0
    assert sent.weights.dtype == np.float32


@given(arrays.arrays(np.float32, 6, elements=floats), st.sampled_from([math.inf, 1e9]))
def test_a_short_update_without_noise_is_sent_bit_for_bit(weights: np.ndarray, clip: float) -> None:
    sent, _ = privatise(update(weights), np.ones(6, np.float32), 6, PrivacyConfig(clip=clip), never)
    np.testing.assert_array_equal(sent.weights, weights)


def test_off_changes_nothing() -> None:
    given = update(np.array([np.nan, 1.0]), loss=1.0)
    assert privatise(given, np.zeros(2), 1, PrivacyConfig(), never) == (given, {})


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_a_broken_update_looks_like_no_update(broken: float) -> None:
    received, settings = np.arange(3.0), PrivacyConfig(clip=1.0, noise_multiplier=2.0)
    normal = seeded_normal(0, 1, "a")
    sent, told = privatise(update(np.array([broken, 1.0, 2.0])), received, 3, settings, normal)
    alone, _ = privatise(update(received), received, 3, settings, seeded_normal(0, 1, "a"))
    np.testing.assert_array_equal(sent.weights, alone.weights)
    assert not np.isfinite(told["norm"])


@pytest.mark.parametrize("source", [seeded_normal, secure_source])
def test_noise_has_the_standard_deviation_z_times_c(source) -> None:  # type: ignore[no-untyped-def]
    size, received = 40_000, np.full(40_000, 0.5)
    settings = PrivacyConfig(clip=0.2, noise_multiplier=3.0)
    sent, _ = privatise(update(received + 1.0), received, size, settings, source(0, 1, "a"))
    # The step has length 0.2, spread over 40,000 weights.
    noise = (sent.weights - received - 0.2 / np.sqrt(size)) / 0.6
    # Chance of a false alarm 1e-9 each: the OS's numbers differ in every run.
    assert stats.kstest(noise, "norm").pvalue > 1e-9
    assert abs(noise.var() - 1) < 6.2 * np.sqrt(2 / size)
    assert abs(noise.mean()) < 6.2 / np.sqrt(size)
    assert abs(np.corrcoef(noise[: size // 2], noise[size // 2 :])[0, 1]) < 6.2 / np.sqrt(size / 2)


def test_seeded_noise_repeats_and_differs_between_clients_and_rounds() -> None:
    drawn = [seeded_normal(*key)(5) for key in [(0, 1, "a"), (0, 1, "b"), (0, 2, "a"), (1, 1, "a")]]
    assert len({each.tobytes() for each in drawn}) == 4
    np.testing.assert_array_equal(drawn[0], seeded_normal(0, 1, "a")(5))


def test_secure_noise_never_repeats() -> None:
    assert secure_source(0, 1, "a")(4).tobytes() != secure_source(0, 1, "a")(4).tobytes()
    assert [len(secure_normal(n)) for n in (0, 1, 2, 3)] == [0, 1, 2, 3]


def test_secure_noise_is_finite_at_the_ends_of_the_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    for byte in (b"\x00", b"\xff"):
        monkeypatch.setattr("os.urandom", lambda n, byte=byte: byte * n)
        assert np.isfinite(secure_normal(4)).all()


def test_batchnorm_statistics_are_refused() -> None:
    with pytest.raises(GlocalfairError, match=r"BatchNorm statistics \(2 numbers"):
        privatise(update(np.ones(5)), np.zeros(5), 3, PrivacyConfig(clip=1.0), never)


def test_frozen_weights_leave_as_they_came() -> None:
    received = np.array([0.0, 0.0, 0.3, -7.0])
    trained = np.array([3.0, 4.0, 0.3, -7.0])
    sent, told = privatise(update(trained), received, 2, PrivacyConfig(clip=1.0), never)
    np.testing.assert_allclose(sent.weights, [0.6, 0.8, 0.3, -7.0])
    assert told["norm"] == 5
    sent, _ = privatise(update(trained), received, 2, PrivacyConfig(clip=1.0, noise_multiplier=1.0), secure_normal)
    assert (sent.weights[2:] == received[2:]).all() and (sent.weights[:2] != [0.6, 0.8]).all()


def test_the_payload_is_not_touched() -> None:
    given = update(np.ones(3), loss=0.25)
    sent, _ = privatise(given, np.zeros(3), 3, PrivacyConfig(clip=0.1, noise_multiplier=1.0), secure_normal)
    assert (sent.payload, sent.examples, sent.client) == ({"loss": 0.25}, 7, "a")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"clip": 0.0}, "'privacy.clip' must be above 0"),
        ({"clip": -1.0}, "'privacy.clip' must be above 0"),
        ({"clip": math.nan}, "'privacy.clip' must be above 0"),
        ({"noise_multiplier": 1.0}, "when there is noise"),
        ({"noise_multiplier": 1.0, "clip": math.inf}, "when there is noise"),
        ({"clip": 1.0, "noise_multiplier": -0.1}, "'privacy.noise_multiplier'"),
        ({"clip": 1.0, "noise_multiplier": math.nan}, "'privacy.noise_multiplier'"),
        ({"clip": 1.0, "noise_multiplier": math.inf}, "'privacy.noise_multiplier'"),
        ({"delta": 0.0}, "'privacy.delta' must be above 0 and below 1"),
        ({"delta": 1.0}, "'privacy.delta' must be above 0 and below 1"),
    ],
)
def test_settings_that_mean_nothing_are_refused(values: dict[str, float], message: str) -> None:
    with pytest.raises(GlocalfairError, match=message):
        PrivacyConfig(**values)  # type: ignore[arg-type]
