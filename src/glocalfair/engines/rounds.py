"""What every engine does alike on the server's side of a round: who takes part, and which model is the final one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch

from glocalfair.config import TrainConfig
from glocalfair.engines.state import SimulationState
from glocalfair.local.network import MLPNetwork, Network
from glocalfair.methods.base import Method
from glocalfair.rng import generator
from glocalfair.types import Combining, Floats, RoundContext, TrainingSettings


def round_context(
    names: Sequence[str], number: int, train: TrainConfig, seed: int, trainable: int, combining: Combining
) -> RoundContext:
    """Return what everybody knows about a round: who of `names` (sorted) takes part, and how to train."""
    count = max(1, round(train.participation * len(names)))
    chosen = generator(seed, number, "participants").choice(len(names), count, replace=False)
    lr = train.lr * train.lr_decay ** ((number - 1) // train.lr_decay_every)
    return RoundContext(
        round=number,
        rounds=train.rounds,
        seed=seed,
        participants=tuple(sorted(names[i] for i in chosen)),
        training=TrainingSettings(
            train.optimizer, lr, train.momentum, train.weight_decay, train.epochs, train.batch_size, train.augment
        ),
        trainable=trainable,
        combining=combining,
    )


def averaged(method: Method, train: TrainConfig) -> int:
    """Over how many of the last models the final one is averaged; early stopping keeps the best one instead."""
    if train.early_stopping:
        return 1
    return min(train.average_last or method.averaged(train.rounds), train.rounds)


def remember(state: SimulationState, count: int, rounds: int) -> SimulationState:
    """Add the global model to those that the final one is averaged from, if it is one of the last `count`."""
    if count <= 1 or state.round <= rounds - count:
        return state
    weights = state.server.weights
    tail = np.zeros(len(weights)) if state.tail is None else state.tail
    return replace(state, tail=tail + weights)


def final_weights(state: SimulationState, count: int) -> Floats:
    """Return the model of the run: the last, the mean of the last `count`, or the best on validation data."""
    if state.tail is not None and not state.diverged:
        return (state.tail / count).astype(state.server.weights.dtype)
    return state.server.weights if state.best is None else state.best


@contextmanager
def threads(network: Network) -> Iterator[None]:
    """Small matrices are slower on many threads; a cohort of MLPs runs on one for each worker."""
    before = torch.get_num_threads()
    if isinstance(network, MLPNetwork):
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
