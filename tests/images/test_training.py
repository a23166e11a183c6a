"""The federated path trains picture models as a plain loop does, from seeds alone, and can be interrupted."""

import copy
import dataclasses
import shutil

import numpy as np
import pytest
import torch
from torch import nn

from glocalfair.aggregation.gini import gini, sorted_magnitudes
from glocalfair.config import build as config_of
from glocalfair.config import load as load_config
from glocalfair.errors import GlocalfairError
from glocalfair.experiment import Experiment
from glocalfair.local.batches import schedule
from glocalfair.local.network import network
from glocalfair.local.trainer import Job, Trainer, rows_of
from glocalfair.rng import generator
from glocalfair.runs import RunDirectory
from glocalfair.types import Stage, TrainingSettings
from glocalfair.vision.augment import augmented
from glocalfair.vision.mobilenet import MobileNetV2
from glocalfair.vision.resnet import ResNet34

ROWS = 37  # two batches of 16, and one of 5


def pictures(rows=ROWS, side=32):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 255, (rows, 3, side, side), dtype=np.uint8)
    return x, rng.integers(2, size=rows), rng.integers(2, size=(rows, 1))


def trainer_of(module, data, dtype=torch.float32):
    x, y, groups = data
    return Trainer(network(module), rows_of(x, y, groups, [2], dtype))


def job_of(trainer, module, rows=ROWS, client="c"):
    weights = trainer.network.layout.flatten(module).numpy().copy()
    return Job(client, weights, (Stage(),), np.arange(rows), np.arange(0), seed=0, round=1)


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_same_as_a_plain_loop(norm, optimizer):
    """Batches of different sizes, BatchNorm statistics and all: what torch alone would do."""
    torch.manual_seed(0)
    module = ResNet34(norm=norm, width=0.125).double()
    plain = copy.deepcopy(module)
    data = pictures()
    trainer = trainer_of(module, data, torch.float64)
    settings = TrainingSettings(optimizer, lr=1e-3, epochs=2, batch_size=16)
    (trained,) = trainer.train([job_of(trainer, module)], settings)

    plan = schedule([ROWS], 2, 16, [generator(0, 1, "c", "batches", 0)])
    kinds = {"adam": torch.optim.Adam, "sgd": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9)}
    optimiser = kinds[optimizer](plain.parameters(), lr=1e-3)
    inputs, labels = torch.as_tensor(data[0]).double() / 127.5 - 1, torch.as_tensor(data[1]).double()
    plain.train()
    for position, weight in zip(plan.position, plan.weight, strict=True):
        rows = torch.as_tensor(position[weight > 0])
        optimiser.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(plain(inputs[rows]), labels[rows]).backward()
        optimiser.step()
    expected = trainer.network.layout.flatten(plain).numpy()
    np.testing.assert_allclose(trained.weights[0], expected, atol=1e-6 if optimizer == "adam" else 1e-10)
    assert trained.steps == 6


def test_what_is_averaged_and_what_enters_the_gini():
    experiment = Experiment.prepare(config_of(faces(method={"name": "glocalfair"})))
    layout, simulator = experiment.simulator.network.layout, experiment.simulator
    names = [name.rpartition(".")[2] for name in layout.names]
    trained, rest = names[: layout.trainable_tensors], names[layout.trainable_tensors :]
    assert set(trained) == {"weight", "bias"} and set(rest) == {"running_mean", "running_var"}
    state = simulator.start(experiment.initial)
    context = simulator.context(1)
    updates, *_ = simulator.train_clients(state, context)
    after, log = simulator.method.server_round(state.server, updates, context)
    shares = [log["coefficients"][u.client] for u in updates]
    # Weights and BatchNorm statistics alike are averaged, with the same shares …
    expected = sum(s * u.weights.astype(float) for s, u in zip(shares, updates, strict=True))
    np.testing.assert_allclose(after.weights, expected, atol=1e-6)
    assert (after.weights[layout.trainable :] != state.server.weights[layout.trainable :]).mean() > 0.9
    # … but only what is trained enters the Gini coefficient.
    for update in updates:
        own = gini(sorted_magnitudes(update.weights[: layout.trainable]))
        assert abs(log["gini"][update.client] - own) < 1e-6


def test_a_last_batch_of_one_row_trains():
    for make in (ResNet34, MobileNetV2):
        module = make(width=0.125)
        trainer = trainer_of(module, pictures(17))
        (trained,) = trainer.train([job_of(trainer, module, 17)], TrainingSettings("sgd", 0.01, batch_size=16))
        assert np.isfinite(trained.weights[0]).all() and trained.steps == 2


def test_dropout_depends_on_seed_round_and_client_alone():
    module = MobileNetV2(width=0.125)
    trainer = trainer_of(module, pictures(16))
    settings = TrainingSettings("sgd", 0.01, batch_size=16)
    jobs = [job_of(trainer, module, 16, client) for client in ("a", "b")]
    forward = [t.weights[0] for t in trainer.train(jobs, settings)]
    before = torch.random.get_rng_state()
    torch.manual_seed(99)
    backward = [t.weights[0] for t in trainer.train(jobs[::-1], settings)][::-1]
    torch.random.set_rng_state(before)
    for one, other in zip(forward, backward, strict=True):
        np.testing.assert_array_equal(one, other)
    again = trainer.train([jobs[0]._replace(round=2)], settings)[0].weights[0]
    assert (again != forward[0]).any()


def test_augmentation_moves_pictures_and_nothing_else():
    x = torch.rand(64, 3, 32, 32)
    for how in ("flip", "flip+shift"):
        one, same = (augmented(x, how, np.random.default_rng(1)) for _ in range(2))
        torch.testing.assert_close(one, same)
        flipped = sum(bool(torch.equal(a, b.flip(2))) for a, b in zip(one, x, strict=True))
        assert (10 < flipped < 54) if how == "flip" else one.shape == x.shape
        assert set(one.flatten().tolist()) <= set(x.flatten().tolist())
    assert augmented(x, "none", np.random.default_rng(1)) is x


def test_augmented_training_is_the_same_in_any_order():
    module = ResNet34(width=0.125)
    trainer = trainer_of(module, pictures(16))
    settings = TrainingSettings("sgd", 0.01, batch_size=8, augment="flip+shift")
    jobs = [job_of(trainer, module, 16, client) for client in ("a", "b")]
    one = trainer.train(jobs, settings)
    other = trainer.train(jobs[::-1], settings)[::-1]
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.weights[0], b.weights[0])
    plain = trainer.train(jobs[:1], dataclasses.replace(settings, augment="none"))
    assert (plain[0].weights[0] != one[0].weights[0]).any()


def faces(**sections):
    values = {
        "data": {"name": "faces", "rows": 160, "people": 60, "silos": 4},
        "partition": {"name": "by_column", "min_rows": 1},
        "model": {"name": "resnet34", "width": 0.125},
        "train": {"rounds": 3, "participation": 0.5, "optimizer": "adam", "lr": 0.002, "batch_size": 16},
        "run": {"evaluate_clients": False},
    }
    for name, content in sections.items():
        values[name] = {**values.get(name, {}), **content} if name != "method" else content
    return values


@pytest.mark.parametrize("method", ["fedavg", "glocalfair", "glocalfair-paper"])
def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(tmp_path, method):
    config = config_of(faces(method={"name": method}, train={"augment": "flip"}))
    whole = RunDirectory.create(tmp_path / "whole", config)
    expected = Experiment.prepare(config).run(whole)

    class Interrupted(Exception):  # noqa: N818
        pass

    def stop(record):
        if record["round"] == 2:
            raise Interrupted

    broken = RunDirectory.create(tmp_path / "broken", config)
    with pytest.raises(Interrupted):
        Experiment.prepare(config).run(broken, on_round=stop)
    shutil.copytree(broken.path, tmp_path / "moved")
    again = RunDirectory.open(tmp_path / "moved")
    result = Experiment.prepare(again.load_config()).run(again, again.resume())
    assert whole.rounds.read_bytes() == again.rounds.read_bytes()
    assert whole.model.read_bytes() == again.model.read_bytes()
    assert result["global"]["accuracy"] == expected["global"]["accuracy"]


def test_budgets_of_the_shipped_experiments():
    for name, model in (("utkface", "mobilenet_v2"), ("celeba", "resnet34")):
        quick, full = load_config(name), load_config(name, budget="full")
        assert full.data["side"] == 128 and full.model.width == 1.0 and full.train.rounds == 150
        assert load_config(name, budget="quick") == quick
        assert 2 * quick.train.rounds < full.train.rounds and quick.model.name == full.model.name == model
        assert load_config(name, [("train.rounds", 3)], "full").train.rounds == 3
        with pytest.raises(GlocalfairError, match="Unknown budget of"):
            load_config(name, budget="ful")


def test_warm_start_from_pretrained_tells_what_it_ignored(tmp_path):
    state = ResNet34(width=0.125).state_dict()
    torch.save({**state, "fc.weight": torch.rand(10, 64), "fc.bias": torch.rand(10)}, tmp_path / "w.pth")
    experiment = Experiment.prepare(config_of(faces(model={"pretrained": str(tmp_path / "w.pth")})))
    assert "fc.bias, fc.weight" in experiment.federation.about["notices"][0]
    layout = experiment.simulator.network.layout
    loaded = layout.views(torch.as_tensor(experiment.initial))
    torch.testing.assert_close(loaded["layer1.0.conv1.weight"], state["layer1.0.conv1.weight"])
