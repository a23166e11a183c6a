"""The engine ``flower``: an experiment's rounds through Flower's simulation (Ray), each client a site of its own.

It is slower than the embedded engine and ends with the same model; it shows that a method will do the same on a
deployment. The sites' states lie in ``RUN_DIR/sites``, so that an interrupted run goes on.
"""

from __future__ import annotations

import copy
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glocalfair import config as configuration
from glocalfair.engines.state import SimulationState
from glocalfair.errors import GlocalfairError
from glocalfair.flower import require_flower
from glocalfair.flower.coordinator import USED, Coordinator
from glocalfair.flower.enrolment import Roster, enrol
from glocalfair.flower.settings import FlowerConfig, Terms, checked
from glocalfair.flower.site import Rows, Site
from glocalfair.flower.store import Store
from glocalfair.privacy import seeded_normal
from glocalfair.runs import RunDirectory

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.serverapp import Grid

    from glocalfair.experiment import Experiment

OnRound = Callable[[Mapping[str, Any]], None]


def simulate(
    ready: Experiment, directory: RunDirectory | None, state: SimulationState, on_round: OnRound | None
) -> SimulationState:
    """Run all rounds that are left and return the last state, with the clients' own states in it.

    Parameters
    ----------
    ready
        The experiment.
    directory
        Where the run is written; it also keeps the sites' states.
    state
        The state to go on from.
    on_round
        Called with the record of each round.
    """
    require_flower()
    if directory is None:
        raise GlocalfairError("The engine 'flower' needs a run directory for the states of the clients.")
    # Before Flower and Ray read them: neither is to report home, and an MLP is faster on one thread.
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    os.environ |= quiet
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    text = configuration.dump(configuration.to_mapping(checked(ready.config)))
    folder = directory.path.absolute() / "sites"
    ended: list[SimulationState | BaseException] = []
    server, client = ServerApp(), ClientApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            ended.append(_coordinate(grid, ready, directory, state, on_round))
        except BaseException as error:
            # Raised again below; in a thread of Flower's it would only be printed.
            ended.append(error)

    @client.query()
    @client.train()
    def answer(message: Message, context: Context) -> Message:
        from glocalfair.flower.apps import reply

        return reply(message, _site(text, folder, int(context.node_config["partition-id"])))

    logger = logging.getLogger("flwr")
    before, logger.level = logger.level, logging.ERROR
    resources: dict[str, Any] = {
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        "init_args": {"log_to_driver": False},
    }
    try:
        run_simulation(server, client, len(ready.simulator.clients), backend_config=resources)
    except RuntimeError as error:
        if not ended:
            raise GlocalfairError(f"Flower's simulation failed: {error}.") from error
    finally:
        logger.level = before
    if not ended:
        raise GlocalfairError("Flower's simulation ended without a result.")
    if not isinstance(ended[0], SimulationState):
        raise ended[0]
    return _with_states(ended[0], Roster.load(directory.path), folder)


def _coordinate(
    grid: Grid, ready: Experiment, directory: RunDirectory, state: SimulationState, on_round: OnRound | None
) -> SimulationState:
    from glocalfair.flower.transport import GridTransport

    sim, transport = ready.simulator, GridTransport(grid, pause=0.02)
    names = tuple(sim.clients)
    flower = FlowerConfig(sites=names, min_sites=len(names), quorum=1e-9)
    known = Roster.load(directory.path)
    terms = replace(Terms.of(secrets.token_hex(8), ready.config, flower, None), model={"name": "own:model"})
    roster = enrol(transport, terms, flower, sim.expected, known, pause=0.1)
    if known is None:
        roster.save(directory.path)
    layout = sim.network.layout
    coordinator = Coordinator(ready.config, flower, sim.method, roster, sim.expected.groups, layout.trainable)
    return coordinator.run(transport, state, directory, on_round)


@lru_cache(maxsize=1)
def _experiment(text: str) -> Experiment:
    """Build the experiment in a worker, once."""
    import tomllib

    from glocalfair.experiment import Experiment

    return Experiment.prepare(configuration.build(tomllib.loads(text)))


def _site(text: str, folder: Path, place: int) -> Site:
    ready = _experiment(text)
    client = list(ready.simulator.clients.values())[place]
    federation = replace(ready.simulator.federation, clients=(client,))
    return Site(
        client.name,
        Store(folder / f"{place:05d}"),
        lambda terms: Rows(federation),
        factory=lambda inputs: copy.deepcopy(ready.template),
        # All in one place for a comparison: the noise is that of the embedded engine.
        noise=seeded_normal,
    )


def _with_states(state: SimulationState, roster: Roster | None, folder: Path) -> SimulationState:
    """Collect what the clients have kept: the embedded engine has it in its state."""
    assert roster is not None
    places = {name: place for place, name in enumerate(sorted(roster.infos))}
    clients = {
        name: Store(folder / f"{places[name]:05d}").state(roster.terms.run, int(memory[USED]))
        for name, memory in state.clients.items()
    }
    return replace(state, clients=clients)
