"""A deployment in memory: sites with folders of their own, a coordinator, and Flower's bytes between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glocalfair.config import Config, ModelConfig
from glocalfair.engines.simulator import Simulator
from glocalfair.engines.state import SimulationState
from glocalfair.flower.coordinator import Coordinator
from glocalfair.flower.enrolment import Roster, enrol
from glocalfair.flower.settings import FlowerConfig, Terms
from glocalfair.flower.site import Rows, Site
from glocalfair.flower.store import Store
from glocalfair.flower.transport import MemoryTransport
from glocalfair.runs import RunDirectory
from tests.federations import alone, start


@dataclass
class Deployment:
    """What a test needs to run, break and run again."""

    sim: Simulator
    folder: Path
    sites: dict[str, Site]
    transport: MemoryTransport
    config: Config
    flower: FlowerConfig
    terms: Terms
    lines: list[str]

    def coordinator(self, roster: Roster | None = None) -> Coordinator:
        sim = self.sim
        roster = enrol(self.transport, self.terms, self.flower, sim.expected, roster, self.lines.append, pause=0.001)
        trainable = sim.network.layout.trainable
        return Coordinator(self.config, self.flower, sim.method, roster, sim.expected.groups, trainable)

    def play(self, **run: Any) -> tuple[SimulationState, list[Mapping[str, Any]]]:
        records: list[Mapping[str, Any]] = []
        coordinator = self.coordinator()
        state = coordinator.start(start(self.sim).server.weights)
        return coordinator.run(self.transport, state, on_round=records.append, **run), records

    def directory(self) -> RunDirectory:
        return RunDirectory.create(self.folder / "run", self.config)


def deployment(sim: Simulator, method: dict[str, Any], folder: Path, **flower: Any) -> Deployment:
    """Give each client of a simulation a site of its own."""
    config = Config(model=ModelConfig(hidden=(4,)), train=sim.train, run=sim.run, method=method, server=sim.server)
    names = sorted(sim.clients)
    settings = FlowerConfig(sites=tuple(names), **{"min_sites": 1, "enrol_timeout": 5.0, **flower})

    def site(name: str) -> Site:
        federation = alone(sim.federation, name)
        return Site(name, Store(folder / "sites" / name), lambda terms: Rows(federation))

    sites = {name: site(name) for name in names}
    answers = {number: sites[name].answer for number, name in enumerate(names, start=1)}
    terms = replace(Terms.of("run", config, settings, None))
    return Deployment(sim, folder, sites, MemoryTransport(answers), config, settings, terms, [])
