"""pfl-research on the same work, as its documentation shows. Runs in the peers' environment."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel

from benchmarks.clock import Laps, report
from benchmarks.loops import model
from benchmarks.work import BATCH, LR, MOMENTUM, Work


class Net(torch.nn.Module):
    """The MLP with the two methods that pfl asks for."""

    def __init__(self, work: Work, dropout: bool) -> None:
        super().__init__()
        self.net = model(work, dropout)
        self.steps = 0

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of a batch."""
        self.steps += 1
        return torch.nn.functional.binary_cross_entropy_with_logits(self.net(x)[:, 0], y)

    @torch.no_grad()
    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict:
        """Only asked for when pfl evaluates, which is switched off."""
        return {"loss": Weighted(0.0, len(x))}


class Clock(TrainingProcessCallback):
    """Marks the end of each round."""

    def __init__(self, laps: Laps) -> None:
        self._laps = laps

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration: int):
        """Mark."""
        self._laps.mark()
        return False, Metrics()


def main(path: str, kind: str = "mlp") -> None:
    """Train and report the time of a round."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    work = Work.load(Path(path))
    x, y = torch.from_numpy(work.x), torch.from_numpy(work.y).float()
    users = [PyTorchTensorDataset((x[a:b], y[a:b])) for a, b in itertools.pairwise(work.edges)]
    turn = itertools.cycle(work.participants.ravel().tolist())
    data = FederatedDataset(lambda user: users[user], lambda: next(turn))
    net = Net(work, kind == "dropout")
    rounds, per_round = work.participants.shape
    trained = PyTorchModel(
        net,
        lambda parameters, lr: torch.optim.SGD(parameters, lr, MOMENTUM),
        torch.optim.SGD(net.parameters(), 1.0),
    )
    laps = Laps()
    laps.mark()
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=rounds,
            evaluation_frequency=10**9,
            train_cohort_size=per_round,
            val_cohort_size=0,
        ),
        SimulatedBackend(data, data, postprocessors=[WeightByDatapoints()]),
        trained,
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=LR, local_batch_size=BATCH),
        NNEvalHyperParams(local_batch_size=None),
        callbacks=[Clock(laps)],
    )
    final = tuple(p.detach().numpy().copy() for p in net.parameters())
    assert all(np.isfinite(p).all() for p in final)
    report(laps.median(skip=2), steps=net.steps, loss=work.loss(final))


if __name__ == "__main__":
    main(*sys.argv[1:])
