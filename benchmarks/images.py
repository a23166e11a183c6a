"""Pictures a second: the federated path against a plain PyTorch loop in the same run, and memory by clients.

    python benchmarks/images.py                  # both models at 64 px, about twenty minutes on 2 cores
    python benchmarks/images.py --side 128 --steps 10
    python benchmarks/images.py --memory         # peak memory for 10 and 100 clients, each in a process of its own

Both train the same pictures in batches of the same size with Adam, in channels-last order. They take turns, so that a
busy machine slows both; the median of the ratios is what counts. One turn of the federated path is a whole round:
broadcast, local training, aggregation.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np
import torch
from torch import nn

from glocalfair.config import build
from glocalfair.experiment import Experiment

MODELS = ("resnet34", "mobilenet_v2")


def experiment(model: str, width: float, side: int, clients: int, each: int, batch: int, share: float) -> Experiment:
    """Make a federation of made-up faces: `clients` with about `each` training pictures."""
    return Experiment.prepare(
        build(
            {
                "data": {"name": "faces", "rows": clients * each, "people": clients * each, "side": side},
                "partition": {"name": "iid", "clients": clients, "min_rows": 1},
                "split": {"test": 0.0, "validation": 0.0, "local_test": 0.0},
                "model": {"name": model, "width": width},
                "train": {
                    "rounds": 10_000,
                    "participation": share,
                    "optimizer": "adam",
                    "lr": 1e-4,
                    "batch_size": batch,
                },
                "run": {"evaluate_every": 10_000, "evaluate_clients": False},
            }
        )
    )


def plain_loop(ready: Experiment, batch: int) -> Any:
    """Return a function that trains a copy of the model on as many pictures as a round has, and nothing else."""
    module = ready.module(ready.initial).to(memory_format=torch.channels_last)
    pixels, labels = torch.as_tensor(ready.federation.x), torch.as_tensor(ready.federation.y).float()
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-4)
    rows = [np.asarray(client.train) for client in ready.federation.clients]
    random = np.random.default_rng(0)

    def turn() -> int:
        module.train()
        done = 0
        for mine in rows:
            for part in torch.as_tensor(random.permutation(mine)).split(batch):
                x = pixels[part].float().div_(127.5).sub_(1).contiguous(memory_format=torch.channels_last)
                optimiser.zero_grad()
                nn.functional.binary_cross_entropy_with_logits(module(x), labels[part]).backward()
                optimiser.step()
                done += len(part)
        return done

    return turn


def clock() -> tuple[float, float]:
    """Return the time of day and the time of the CPU, which does not see the others on a busy machine."""
    return time.perf_counter(), time.process_time()


def throughput(model: str, width: float, side: int, batch: int, steps: int, turns: int) -> dict[str, Any]:
    """Measure both paths in turns."""
    ready = experiment(model, width, side, 2, steps * batch // 2, batch, 1.0)
    simulator = ready.simulator
    state = simulator.start(ready.initial)
    plain = plain_loop(ready, batch)
    ours, theirs = [], []
    for number in range(turns + 1):
        begun = clock()
        done = plain()
        between = clock()
        state, _ = simulator.step(state)
        ended = clock()
        if number:  # the first turn warms up
            theirs.append([done / (b - a) for a, b in zip(begun, between, strict=True)])
            ours.append([done / (b - a) for a, b in zip(between, ended, strict=True)])
    wall, cpu = ([b[i] / a[i] - 1 for a, b in zip(ours, theirs, strict=True)] for i in (0, 1))
    return {
        "model": model,
        "width": width,
        "side": side,
        "plain": statistics.median(each[0] for each in theirs),
        "federated": statistics.median(each[0] for each in ours),
        "extra": statistics.median(wall),
        "extra_cpu": statistics.median(cpu),
    }


def memory(model: str, width: float, clients: int, taking_part: int) -> float:
    """Return the peak memory of two rounds in MB; runs in a process of its own."""
    ready = experiment(model, width, 32, clients, 16, 16, taking_part / clients)
    state = ready.simulator.start(ready.initial)
    for _ in range(2):
        state, _ = ready.simulator.step(state)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--width", type=float, default=1.0)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=24, help="batches in a turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--one", nargs=3, metavar=("MODEL", "CLIENTS", "TAKING_PART"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.one:
        model, clients, taking_part = options.one
        print(json.dumps(memory(model, options.width, int(clients), int(taking_part))))
        return
    if options.memory:
        print("| model | clients | taking part in a round | peak memory |\n|---|---|---|---|")
        for model in MODELS:
            for clients, taking_part in ((10, 3), (100, 3), (100, 30)):
                command = [sys.executable, __file__, "--width", str(options.width)]
                command += ["--one", model, str(clients), str(taking_part)]
                peak = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                print(f"| {model} | {clients} | {taking_part} | {peak:,.0f} MB |", flush=True)
        return
    print("| model | width | side | plain loop | federated | extra time | extra CPU time |\n" + "|---" * 7 + "|")
    for model in MODELS:
        r = throughput(model, options.width, options.side, options.batch, options.steps, options.turns)
        speeds = f"{r['plain']:.0f} pictures/s | {r['federated']:.0f} pictures/s"
        print(
            f"| {model} | {r['width']:g} | {r['side']} | {speeds} | {100 * r['extra']:+.1f} % | "
            f"{100 * r['extra_cpu']:+.1f} % |",
            flush=True,
        )


if __name__ == "__main__":
    main()
