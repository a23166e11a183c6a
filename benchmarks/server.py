"""The server's half of a round for large models: Gini, clusters and average beside the average alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from benchmarks.clock import peak_megabytes, report, timed
from benchmarks.processes import measure
from benchmarks.table import Line, middle, ratio
from glocalfair.aggregation.gini import gini, inequality, sorted_magnitudes
from glocalfair.methods.base import Method
from glocalfair.methods.fedavg import FedAvg
from glocalfair.methods.glocalfair import GLocalFair
from glocalfair.types import ClientUpdate, Floats, RoundContext, ServerState, TrainingSettings

RESNET34 = 21_285_185


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


def main(kind: str, size: str, clients: str) -> None:
    """Aggregate once and report the time, and the memory beyond the updates themselves."""
    length = int(size)
    updates = [ClientUpdate(f"c{k:02d}", update(length, k), 100 + k) for k in range(int(clients))]
    state = ServerState(update(length, 999))
    names = tuple(u.client for u in updates)
    context = RoundContext(1, 1, 0, names, TrainingSettings(), length)
    method: Method = FedAvg() if kind == "average" else GLocalFair(reference="local")
    before = peak_megabytes()

    def plain() -> None:
        total = np.zeros(length, np.float32)
        for u in updates:
            total += np.float32(1 / len(updates)) * u.weights

    work = plain if kind == "float32" else lambda: method.server_round(state, updates, context)
    seconds = timed(work)
    error = 0.0
    if kind == "gini":
        exact = gini(sorted_magnitudes(updates[0].weights))
        error = abs(inequality(updates[0].weights)[0] / exact - 1)
    report(seconds, extra=peak_megabytes() - before, error=error)


def lines(size: int, clients: int, repetitions: int) -> Iterator[Line]:
    """Compare GLocalFair's server with FedAvg's and with a sum in float32."""
    found: dict[str, list[dict[str, float]]] = {"average": [], "gini": [], "float32": []}
    for _ in range(repetitions):
        for kind, results in found.items():
            results.append(measure("server", kind, size, clients))
    each = {kind: f"{1000 * middle(results) / clients:.0f} ms" for kind, results in found.items()}
    what = f"{clients} updates of {size / 1e6:.1f}M parameters"
    yield Line("3 server", f"Gini + clusters + average / average, {what}", ratio(found["gini"], found["average"]),
               target=3, better="less", note=f"an update: {each['gini']}, average alone {each['average']}")  # fmt: skip
    yield Line("3 server", "the same / a sum in float32", ratio(found["gini"], found["float32"]),
               note=f"a sum in float32: {each['float32']} an update")  # fmt: skip
    yield Line("3 server", "relative error of the Gini coefficient", middle(found["gini"], "error"), "", 1e-9, "less")
    yield Line("3 server", "memory beyond the updates", middle(found["gini"], "extra"), "MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
