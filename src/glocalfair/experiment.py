"""From a configuration to a finished run: builds the parts, runs the rounds, writes the run directory."""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from glocalfair import __version__, models, privacy
from glocalfair.bundle import NAME as BUNDLE
from glocalfair.bundle import Bundle, preprocessing
from glocalfair.config import Config
from glocalfair.data.encoder import Encoder
from glocalfair.data.federation import arranged, build
from glocalfair.data.frame.schema import FrameSchema
from glocalfair.data.holdings import who_holds_what
from glocalfair.data.images.listing import notices as picture_notices
from glocalfair.data.registry import load as load_data
from glocalfair.engines.checks import foreign
from glocalfair.engines.divergence import advice
from glocalfair.engines.rounds import threads
from glocalfair.engines.simulator import Simulator
from glocalfair.engines.state import SimulationState
from glocalfair.errors import GlocalfairError
from glocalfair.local.network import network
from glocalfair.memory import old_objects_left_alone
from glocalfair.metrics import accuracy, eod, pooled, summarise
from glocalfair.registry import method as make_method
from glocalfair.runs import RunDirectory, read_safetensors
from glocalfair.types import Federation, Floats
from glocalfair.vision.device import device_for
from glocalfair.vision.pretrained import load_pretrained

_SELDOM = 1.0
"""Seconds between checkpoints, unless the user counts in rounds: to wait for the disk may take as long as a round."""
_TWICE = 1 << 30
"""Bytes of a table that is kept as it was given and as it is used."""
OnRound = Callable[[Mapping[str, Any]], None]
Engine = Callable[["Experiment", RunDirectory | None, SimulationState, OnRound | None], SimulationState]


class Finished(NamedTuple):
    """What a run ends with: the result, the counts it comes from, and the weights of the final model."""

    result: dict[str, Any]
    counts: dict[str, Any]
    weights: Floats


@dataclass(frozen=True, eq=False)
class Experiment:
    """A configuration with its parts built: ready to run."""

    config: Config
    federation: Federation
    """As it was given; that of the simulator may number its rows otherwise."""
    simulator: Simulator
    initial: Floats
    template: torch.nn.Module
    """The model as it was made; only its shape matters."""

    @classmethod
    def prepare(
        cls, config: Config, federation: Federation | None = None, factory: models.Factory | None = None
    ) -> Experiment:
        """Build federation, model and method; a federation and a function that makes the model may also be given."""
        given = federation
        method = make_method(config.method["name"], {k: v for k, v in config.method.items() if k != "name"})
        federation = _drawn(config) if given is None else given
        if not any(len(client.train) for client in federation.clients):
            raise GlocalfairError("No client has a training row. Use more data, or larger parts in [split].")
        module, notices = _model(config, federation, factory)
        if notices:
            federation = dataclasses.replace(federation, about={**federation.about, "notices": notices})
        net = network(module)
        # Whoever gave a federation knows its rows by their numbers, and keeps it: a very large one not twice.
        held = arranged(federation) if given is None or federation.x.nbytes < _TWICE else federation
        simulator = Simulator(held, net, method, config.train, config.run, config.server, config.privacy)
        privacy.check(config.privacy, method, net.layout.statistics, config.train.early_stopping)
        simulator.epsilon(1)  # the accountant must be there before the first round, not after it
        initial = net.layout.flatten(module).cpu().numpy()
        if config.model.warm_start:
            initial = _warm_start(Path(config.model.warm_start), simulator)
        return cls(config, held if given is None else federation, simulator, initial, module)

    def run(
        self,
        directory: RunDirectory | None = None,
        state: SimulationState | None = None,
        on_round: OnRound | None = None,
        stop: Callable[[], bool] | None = None,
        engine: Engine | None = None,
    ) -> dict[str, Any]:
        """Run from the beginning, or on from a saved state, to the result.

        Parameters
        ----------
        directory
            Where the run is written; nowhere if None.
        state
            What `RunDirectory.resume` gave; None for the beginning.
        on_round
            Called with the record of each round.
        stop
            Asked after each round; if it says yes, everything is saved and KeyboardInterrupt is raised.
        engine
            Runs the rounds instead of the embedded engine; `glocalfair.flower.simulation.simulate` is one.
        """
        return self.complete(directory, state, on_round, stop, engine).result

    def complete(
        self,
        directory: RunDirectory | None = None,
        state: SimulationState | None = None,
        on_round: OnRound | None = None,
        stop: Callable[[], bool] | None = None,
        engine: Engine | None = None,
    ) -> Finished:
        """Do the same as `run`, and return the final weights as well."""
        # The rounds before an interruption count: a resumed run took as long as all its rounds.
        begun = time.perf_counter() - (0.0 if directory is None else directory.seconds())
        simulator = self.simulator
        fresh = simulator.start(self.initial)
        reason = None if state is None else foreign(state, fresh, self.config.train.rounds)
        if reason is not None:
            raise GlocalfairError(f"The checkpoint does not belong to this run: {reason}.")
        state = state or fresh
        if directory is not None:
            directory.save_federation(vars(who_holds_what(self.federation)))
        if engine is not None:
            state = engine(self, directory, state, self._stopping(on_round, stop))
        saved, every = time.perf_counter(), self.config.run.checkpoint_every
        with threads(simulator.network), old_objects_left_alone():
            while not simulator.finished(state):
                started = time.perf_counter()
                state, record = simulator.step(state)
                over = simulator.finished(state)
                stopped = stop is not None and stop() and not over
                if directory is not None:
                    directory.append(record, round(time.perf_counter() - started, 6))
                    due = state.round % every == 0 if every else time.perf_counter() - saved >= _SELDOM
                    if due or over or stopped:
                        directory.save_state(state)
                        saved = time.perf_counter()
                if on_round is not None:
                    on_round(record)
                if stopped:
                    raise KeyboardInterrupt
            finished = self._finish(state, directory, begun)
        if directory is not None:
            self.save(directory, finished)
        return finished

    def _stopping(self, on_round: OnRound | None, stop: Callable[[], bool] | None) -> OnRound:
        """Let another engine stop where this one does: after a round that is saved."""

        def after(record: Mapping[str, Any]) -> None:
            if on_round is not None:
                on_round(record)
            if stop is not None and stop() and record["round"] < self.config.train.rounds:
                raise KeyboardInterrupt

        return after

    def _finish(self, state: SimulationState, directory: RunDirectory | None, begun: float) -> Finished:
        simulator = self.simulator
        weights = simulator.final_weights(state)
        overall, local, names = simulator.test_tables(state, weights)
        result: dict[str, Any] = {
            "method": simulator.method.name,
            "seed": self.config.run.seed,
            "seconds": round(time.perf_counter() - begun, 3),
            "rounds": state.round,
            "run_dir": None if directory is None else str(directory.path),
            "versions": {"glocalfair": __version__, "torch": str(torch.__version__), "numpy": np.__version__},
            **summarise(overall, local, names, seed=self.config.run.seed),
        }
        result |= privacy.summary(self.config.privacy, simulator.method, simulator.epsilon(state.round))
        if "profile" in self.federation.about:
            profile = self.federation.about["profile"]
            result["data"] = {name: profile[name] for name in ("rows", "dropped", "warnings")}
        if "pictures" in self.federation.about:
            told = self.federation.about["pictures"]
            result["data"] = {"rows": told["pictures"], "warnings": picture_notices(told)}
        if state.diverged:
            lr = simulator.context(state.round).training.lr
            result["diverged"] = {"round": state.round, "message": advice(state.round, state.diverged, lr)}
        elif state.tail is not None:
            plain, _, _ = simulator.test_tables(state, state.server.weights)
            result["without_averaging"] = {
                "accuracy": float(accuracy(pooled(plain.counts.sum(axis=0)))),
                "eod": {each.name: float(eod(plain.table(each.name))[0]) for each in plain.reported},
            }
        return Finished(result, {"global": overall.to_dict(), "local": local.to_dict()}, weights)

    def save(self, directory: RunDirectory, finished: Finished) -> None:
        """Write model, bundle and result into a run directory; the result comes last, because it says "complete"."""
        tensors = self.tensors(finished.weights)
        model = {"name": self.config.model.name, "hidden": list(self.config.model.hidden)}
        directory.save_model(tensors, {"model": model})
        bundle = self.bundle(finished.weights)
        if bundle is not None:
            with directory.writing():
                bundle.save(directory.path / BUNDLE)
        directory.save_result({**finished.result, "counts": finished.counts})

    def module(self, weights: Floats) -> torch.nn.Module:
        """Return the model with these weights, for use outside of the federation."""
        module = copy.deepcopy(self.template).cpu()
        module.to(torch.as_tensor(weights).dtype)
        self.simulator.network.layout.load(module, torch.as_tensor(weights))
        return module.eval()

    def tensors(self, weights: Floats) -> dict[str, Any]:
        """Return flat weights as the model's named tensors."""
        return self.simulator.network.layout.named(weights)

    def bundle(self, weights: Floats) -> Bundle | None:
        """Put the model and its preprocessing together; None for pictures, which have none."""
        about = self.federation.about
        if "encoder" not in about:
            return None
        return Bundle(
            self.tensors(weights),
            Encoder.from_dict(about["encoder"]),
            FrameSchema.from_dict(about["schema"]),
            {"name": self.config.model.name, "hidden": list(self.config.model.hidden)},
            {"method": self.simulator.method.name, "seed": self.config.run.seed, "version": __version__},
        )


def _drawn(config: Config) -> Federation:
    """Load the data and draw who holds what."""
    options = {k: v for k, v in config.data.items() if k != "name"}
    dataset = load_data(config.data["name"], **options)
    federation, encoder = build(dataset, config.partition, config.split, config.run.seed)
    return dataclasses.replace(federation, about=preprocessing(dataset, encoder))


def _model(config: Config, federation: Federation, factory: models.Factory | None) -> tuple[torch.nn.Module, list[str]]:
    """Make the model for these inputs, and say what a user should know; pictures have a shape, a row has a length."""
    told, shape = config.model, federation.x.shape[1:]
    pictures = models.PictureSettings(shape[0], told.norm, told.width, told.reduce) if len(shape) == 3 else None
    module = models.build(told.name, int(np.prod(shape)), config.run.seed, told.hidden, factory, pictures)
    found = picture_notices(federation.about["pictures"]) if "pictures" in federation.about else []
    if told.pretrained:
        ignored = load_pretrained(module, Path(told.pretrained))
        found += [f"weights of '{told.pretrained}' that were not used: {', '.join(ignored)}"] if ignored else []
    return module.to(device_for(config.run.device, pictures is not None)), found


def _warm_start(path: Path, simulator: Simulator) -> Floats:
    """Read saved weights and check that they fit the model."""
    layout = simulator.network.layout
    tensors, _ = read_safetensors(path)
    for name, shape in zip(layout.names, layout.shapes, strict=True):
        if name not in tensors:
            raise GlocalfairError(f"'{path}' has no weights named '{name}': it belongs to another model.")
        if tensors[name].shape != shape:
            raise GlocalfairError(
                f"'{path}' has shape {tensors[name].shape} for '{name}', the model needs {shape}. "
                "Use the same data options and model as the run that wrote it."
            )
    return layout.join(tensors)
