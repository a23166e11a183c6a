"""The server's half of a round for large models: Gini, clusters and average beside the average alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict

import numpy as np

from benchmarks.clock import Seconds, peak_megabytes, report, timed
from benchmarks.processes import measure
from benchmarks.table import Line, middle, ratio
from glocalfair.aggregation.gini import gini, inequality, sorted_magnitudes
from glocalfair.methods.fedavg import FedAvg
from glocalfair.methods.glocalfair import GLocalFair
from glocalfair.types import ClientUpdate, Floats, RoundContext, ServerState, TrainingSettings

RESNET34 = 21_285_185
_PIECE = 1 << 15


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


def main(size: str, clients: str, turns: str) -> None:
    """Aggregate in turn with and without the Gini coefficient; report times and the memory beyond the updates."""
    length = int(size)
    updates = [ClientUpdate(f"c{k:02d}", update(length, k), 100 + k) for k in range(int(clients))]
    state = ServerState(update(length, 999))
    names = tuple(u.client for u in updates)
    context = RoundContext(1, 1, 0, names, TrainingSettings(), length)

    def plain(dtype: type) -> None:
        total, share = np.empty(length, np.float32), dtype(1 / len(updates))
        summed, scaled = np.empty(_PIECE, dtype), np.empty(_PIECE, dtype)
        # Piece by piece, so that nothing but the updates comes from memory.
        for start in range(0, length, _PIECE):
            part = total[start : start + _PIECE]
            held, term = summed[: len(part)], scaled[: len(part)]
            held.fill(0)
            for u in updates:
                held += np.multiply(u.weights[start : start + _PIECE], share, out=term, dtype=dtype)
            part[:] = held

    work: dict[str, Callable[[], object]] = {
        "gini": lambda: GLocalFair(reference="local").server_round(state, updates, context),
        "plain": lambda: plain(np.float64),
        "fedavg": lambda: FedAvg().server_round(state, updates, context),
        "float32": lambda: plain(np.float32),
    }
    before = peak_megabytes()
    # Not counted: what a virtual machine's memory takes when nobody has used it yet.
    for each in work.values():
        each()
    found = [{kind: asdict(timed(each)) for kind, each in work.items()} for _ in range(int(turns))]
    extra = peak_megabytes() - before
    exact = gini(sorted_magnitudes(updates[0].weights))
    error = abs(inequality(updates[0].weights)[0] / exact - 1)
    report(Seconds(**found[0]["gini"]), turns=found, extra=extra, error=error)


def lines(size: int, clients: int, repetitions: int) -> Iterator[Line]:
    """Compare GLocalFair's server with a plain weighted average, with FedAvg's server and with a sum in float32."""
    told = measure("server", size, clients, repetitions)
    found = {kind: [turn[kind] for turn in told["turns"]] for kind in told["turns"][0]}
    each = {kind: f"{1000 * middle(results, 'wall') / clients:.0f} ms" for kind, results in found.items()}
    what = f"{clients} updates of {size / 1e6:.1f}M parameters"
    yield Line("3 server", f"Gini + clusters + average / plain average in float64, {what}, wall",
               ratio(found["gini"], found["plain"], "wall"), target=3, better="less",
               note=f"an update: {each['gini']}, plain average {each['plain']}")  # fmt: skip
    yield Line("3 server", "the same in CPU seconds", ratio(found["gini"], found["plain"]))
    for kind, name in {"fedavg": "FedAvg's server, on as many cores", "float32": "a sum in float32"}.items():
        yield Line("3 server", f"the same / {name}, wall", ratio(found["gini"], found[kind], "wall"),
                   note=f"an update: {each[kind]}")  # fmt: skip
    yield Line("3 server", "relative error of the Gini coefficient", told["error"], "", 1e-9, "less")
    yield Line("3 server", "memory beyond the updates", told["extra"], "MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
