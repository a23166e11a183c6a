"""What one writes by hand: a DataLoader for each client, or slices of a shuffled tensor."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.clock import Laps, report
from benchmarks.work import BATCH, DROPOUT, HIDDEN, LR, MOMENTUM, Work

Batch = tuple[torch.Tensor, torch.Tensor]


def model(work: Work, dropout: bool = False) -> torch.nn.Sequential:
    """The MLP with the first weights, perhaps with dropout behind the first layer."""
    sizes = [work.x.shape[1], *HIDDEN, 1]
    layers: list[torch.nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers[:-1])
    for parameter, weight in zip(net.parameters(), work.weights, strict=True):
        parameter.data.copy_(torch.from_numpy(weight))
    if dropout:
        net.insert(2, torch.nn.Dropout(DROPOUT))
    return net


def main(path: str, kind: str) -> None:
    """Train and report the time of a round."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    work = Work.load(Path(path))
    x, y = torch.from_numpy(work.x), torch.from_numpy(work.y).float()
    held = [slice(a, b) for a, b in zip(work.edges[:-1], work.edges[1:], strict=True)]
    loaders = [DataLoader(TensorDataset(x[s], y[s]), BATCH, shuffle=True) for s in held] if kind == "loader" else []

    def batches(client: int) -> Iterator[Batch]:
        if loaders:
            yield from loaders[client]
            return
        mine, answers = x[held[client]], y[held[client]]
        for part in torch.randperm(len(mine)).split(BATCH):
            yield mine[part], answers[part]

    net, laps, steps = model(work), Laps(), 0
    laps.mark()
    for chosen in work.participants:
        start = copy.deepcopy(net.state_dict())
        total = {name: torch.zeros_like(value) for name, value in start.items()}
        rows = sum(held[k].stop - held[k].start for k in chosen)
        for k in chosen:
            net.load_state_dict(start)
            optimiser = torch.optim.SGD(net.parameters(), LR, MOMENTUM)
            for inputs, labels in batches(k):
                optimiser.zero_grad()
                torch.nn.functional.binary_cross_entropy_with_logits(net(inputs)[:, 0], labels).backward()
                optimiser.step()
                steps += 1
            for name, value in net.state_dict().items():
                total[name] += value * ((held[k].stop - held[k].start) / rows)
        net.load_state_dict(total)
        laps.mark()
    final = tuple(p.detach().numpy() for p in net.parameters())
    report(laps.median(skip=2), steps=steps, loss=work.loss(final))


if __name__ == "__main__":
    main(*sys.argv[1:])
