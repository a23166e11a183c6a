"""The Gaussian mechanism on a client's update: clip, then add noise, on the client itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from glocalfair.errors import GlocalfairError
from glocalfair.privacy.settings import PrivacyConfig
from glocalfair.rng import generator
from glocalfair.types import ClientUpdate, Diagnostics, Floats

Normal = Callable[[int], Floats]
"""Draws so many independent standard normal numbers."""
NoiseSource = Callable[[int, int, str], Normal]
"""Gives the noise for (seed, round, client)."""


def privatise(
    update: ClientUpdate, received: Floats, trainable: int, settings: PrivacyConfig, normal: Normal
) -> tuple[ClientUpdate, Diagnostics]:
    """Return the update as it may leave the client, and what only the client may know.

    Sends received + min(1, C/‖d‖)·d + z·C·N(0, I) with d = trained − received. An update within the bound and
    without noise comes back as it is, bit for bit. One that is not finite counts as d = 0: that it broke must not
    show either. The payload is not touched (see `check`).

    Parameters
    ----------
    update
        What `Method.finish` wants to send.
    received
        The global weights that training started from.
    trainable
        How many of the weights are trained; frozen ones beside them leave as they came. BatchNorm statistics are
        refused: they are averages of the client's inputs, of no bounded length, and would break the model with noise
        on them.
    settings
        C and z.
    normal
        `secure_normal` on a deployment, that of `seeded_normal` where a run must be repeatable.

    Examples
    --------
    >>> update = ClientUpdate("a", np.array([3.0, 4.0]), 1)
    >>> sent, told = privatise(update, np.zeros(2), 2, PrivacyConfig(clip=1.0), secure_normal)
    >>> sent.weights.round(2).tolist(), told
    ([0.6, 0.8], {'norm': 5.0, 'clipped': True})
    """
    if settings.clip is None:
        return update, {}
    if not np.array_equal(update.weights[trainable:], received[trainable:]):
        refuse_statistics(len(received) - trainable)
    step = np.asarray(update.weights, dtype=np.float64) - np.asarray(received, dtype=np.float64)
    norm = float(np.linalg.norm(step))
    told = {"norm": norm, "clipped": not norm <= settings.clip}
    if not told["clipped"] and not settings.noisy:
        return update, told
    if not np.isfinite(norm):
        step = np.zeros_like(step)
    elif told["clipped"]:
        step *= settings.clip / norm
    if settings.noisy:
        step[:trainable] += settings.noise_multiplier * settings.clip * normal(trainable)
    return replace(update, weights=(received + step).astype(update.weights.dtype)), told


def refuse_statistics(count: int) -> None:
    """Raise if a model has BatchNorm statistics beside its weights."""
    if count:
        raise GlocalfairError(
            f"'privacy.clip' cannot be used with a model that sends BatchNorm statistics ({count} numbers "
            "that clipping and noise do not cover). Use a model without them, for instance with GroupNorm."
        )


def seeded_normal(seed: int, number: int, client: str) -> Normal:
    """Return noise that a run with the same seed draws again: for simulations, it hides nothing from who knows it."""
    return generator(seed, number, client, "noise").standard_normal


def secure_source(seed: int, number: int, client: str) -> Normal:
    """Return noise that nobody can draw again, whatever the arguments: for deployments."""
    return secure_normal


def secure_normal(size: int) -> Floats:
    """Draw standard normal numbers from the operating system's secure generator (Box–Muller)."""
    pairs = (size + 1) // 2
    bits = np.frombuffer(os.urandom(16 * pairs), dtype=np.uint64).reshape(2, pairs) >> np.uint64(11)
    # 53 bits, shifted to (0, 1]: the logarithm of 0 would be an infinite weight.
    uniform = (bits.astype(np.float64) + 1) / 2.0**53
    radius, angle = np.sqrt(-2 * np.log(uniform[0])), 2 * np.pi * uniform[1]
    drawn: Floats = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size]
    return drawn
