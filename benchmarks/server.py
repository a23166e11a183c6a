"""The server's half of a round for large models: Gini, clusters and average beside the average alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.clock import forget_peak, peak_megabytes, report, timed
from benchmarks.processes import measure
from benchmarks.table import Line, middle, ratio, ratios
from glocalfair.aggregation.gini import gini, inequality, sorted_magnitudes
from glocalfair.methods.fedavg import FedAvg
from glocalfair.methods.glocalfair import GLocalFair
from glocalfair.types import ClientUpdate, Floats, RoundContext, ServerState, TrainingSettings

RESNET34 = 21_285_185
_PIECE = 1 << 15
PART = "3 The server"
NAMES = {
    "gini": "Gini + clusters + average",
    "plain": "plain average (float64, one core)",
    "fedavg": "FedAvg's server (all cores)",
    "float32": "sum (float32, one core)",
}


def update(size: int, client: int) -> Floats:
    """Draw weights like a trained network's: layers of many scales, normalisation at 1, biases at 0."""
    rng = np.random.default_rng(client)
    weights = rng.standard_normal(size, dtype=np.float32)
    layers = np.array_split(weights, 36)
    for number, layer in enumerate(layers):
        layer *= np.float32(0.05 / (1 + number / 6))
    weights[: size // 1250] = 1
    weights[-(size // 1250) :] = 0
    return weights


def check(found: Floats, expected: Floats) -> None:
    """Make sure that two averages of the same updates are one: to a bit or two of float32."""
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-7), f"averages differ by {np.abs(found - expected).max()}"


def main(size: str, clients: str, turns: str) -> None:
    """Aggregate in turn with and without the Gini coefficient; report times and the memory beyond the updates."""
    length = int(size)
    updates = [ClientUpdate(f"c{k:02d}", update(length, k), 100 + k) for k in range(int(clients))]
    state = ServerState(update(length, 999))
    names = tuple(u.client for u in updates)
    context = RoundContext(1, 1, 0, names, TrainingSettings(), length)

    def plain(shares: Floats, dtype: type) -> Floats:
        total, shares = np.empty(length, np.float32), shares.astype(dtype)
        summed, scaled = np.empty(_PIECE, dtype), np.empty(_PIECE, dtype)
        # Piece by piece, so that nothing but the updates comes from memory.
        for start in range(0, length, _PIECE):
            part = total[start : start + _PIECE]
            held, term = summed[: len(part)], scaled[: len(part)]
            held.fill(0)
            for u, share in zip(updates, shares, strict=True):
                held += np.multiply(u.weights[start : start + _PIECE], share, out=term, dtype=dtype)
            part[:] = held
        return total

    shares = np.array([u.examples for u in updates]) / sum(u.examples for u in updates)
    ours, usual = GLocalFair(reference="local"), FedAvg()
    work: dict[str, Callable[[], Any]] = {
        "gini": lambda: ours.server_round(state, updates, context),
        "plain": lambda: plain(shares, np.float64),
        "fedavg": lambda: usual.server_round(state, updates, context),
        "float32": lambda: plain(shares, np.float32),
    }
    forget_peak()
    before = peak_megabytes()
    (after, told), extra = work["gini"](), peak_megabytes() - before
    # Nor is counted what a virtual machine's memory takes when nobody has used it yet.
    check(after.weights, plain(np.array(list(told["coefficients"].values())), np.float64))
    check(work["fedavg"]()[0].weights, work["plain"]())
    check(work["float32"](), work["plain"]())
    found = [{kind: asdict(timed(each)) for kind, each in work.items()} for _ in range(int(turns))]
    exact = gini(sorted_magnitudes(updates[0].weights))
    error = abs(inequality(updates[0].weights)[0] / exact - 1)
    report(turns=found, extra=extra, error=error)


def lines(size: int, clients: int, repetitions: int) -> Iterator[Line]:
    """Compare GLocalFair's server with a plain weighted average, with FedAvg's server and with a sum in float32."""
    told = measure("server", size, clients, repetitions)
    found = {kind: [turn[kind] for turn in told["turns"]] for kind in told["turns"][0]}
    case = f"{clients} updates of {size / 1e6:.1f}M parameters"
    whole, plain = found["gini"], found["plain"]
    turns = ratios(whole, plain, "wall")
    yield Line(PART, f"{NAMES['gini']} / {NAMES['plain']}, wall", case, ratio(whole, plain, "wall"),
               target=3, better="less", turns=turns)  # fmt: skip
    yield Line(PART, f"{NAMES['gini']} / {NAMES['plain']}, CPU", case, ratio(whole, plain))
    for kind in ("fedavg", "float32"):
        yield Line(PART, f"{NAMES['gini']} / {NAMES[kind]}, wall", case, ratio(whole, found[kind], "wall"))
    yield Line(PART, "relative error of the Gini coefficient", case, told["error"], "", 1e-9, "less")
    yield Line(PART, "memory beyond the updates", case, told["extra"], "MB")
    for kind, results in found.items():
        yield Line(PART, f"an update, wall: {NAMES[kind]}", case, 1000 * middle(results, "wall") / clients, "ms")


if __name__ == "__main__":
    main(*sys.argv[1:])
