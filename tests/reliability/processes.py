"""Runs the command line in processes that can be killed, forked from one that has torch loaded already."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import util
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from glocalfair.cli import main
from glocalfair.engines.state import SimulationState
from tests.reliability.sabotage import Operations

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["glocalfair.experiment", "glocalfair.lock", "glocalfair.report.overview", "numpy.random", __name__]
)

ROUNDS = 5
SMALL = [
    "synthetic",
    *("--set", "data.rows=240"),
    *("--set", "data.clients=4"),
    *("--set", "data.features=3"),
    *("--set", "model.hidden=[4]"),
    *("--set", "train.dropout=0.2"),
    *("--set", "train.batch_size=16"),
    *("--set", "train.lr=0.1"),
    *("--set", "run.checkpoint_every=1"),
    *("--rounds", str(ROUNDS)),
]
SAME = ("rounds.jsonl", "model.safetensors", "config.toml", "federation.json")
"""The files that an interrupted run and an uninterrupted one must share bit by bit."""

Setup = Callable[[], None]


def _child(arguments: list[str], told: str, setup: Setup | None) -> None:
    with Path(told).open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    if setup is not None:
        setup()
    main(arguments, prog_name="glocalfair")


def start(*arguments: object, told: Path, setup: Setup | None = None) -> BaseProcess:
    """Start a command; what it prints goes to the file `told`. `setup` is called in the new process first."""
    process = CONTEXT.Process(target=_child, args=([str(a) for a in arguments], str(told), setup))
    process.start()
    return process


def finish(process: BaseProcess, timeout: float = 120) -> int:
    """Wait for a process and return its exit code; minus the signal's number if one ended it."""
    process.join(timeout)
    assert process.exitcode is not None, "the process hangs"
    return process.exitcode


def run(*arguments: object, told: Path, setup: Setup | None = None) -> int:
    """Run a command to its end and return its exit code."""
    return finish(start(*arguments, told=told, setup=setup))


def command(folder: Path, *settings: str) -> list[str]:
    """Return the command that starts the small run in a folder, or continues what is there."""
    if (folder / "config.toml").exists():
        return ["run", "--resume", str(folder), "--quiet"]
    return ["run", *SMALL, *settings, "--output", str(folder), "--quiet"]


def complete(folder: Path, told: Path, *settings: str, setup: Setup | None = None) -> Path:
    """Bring a run to its end, from wherever it stands."""
    code = run(*command(folder, *settings), told=told, setup=setup)
    assert code == 0, told.read_text()
    return folder


def wait_for(condition: Callable[[], bool], timeout: float = 60) -> None:
    """Wait until something is so."""
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def lines(path: Path) -> int:
    """Count the complete lines of a log, which may not be there yet."""
    with contextlib.suppress(OSError):
        return path.read_bytes().count(b"\n")
    return 0


def assert_same(one: Path, two: Path) -> None:
    """Compare two finished run directories bit by bit, in all files that do not tell the time; nothing is left over."""
    for name in SAME:
        assert (one / name).read_bytes() == (two / name).read_bytes(), f"{name} differs"
    assert not list(one.glob(".*.tmp"))


@dataclass(frozen=True)
class Count:
    """Setup for a child: count its operations on files and write their number to a file at its end."""

    to: Path

    def __call__(self) -> None:
        file = self.to.open("w")
        operations = Operations(0)
        operations.install()
        util.Finalize(None, lambda: (file.write(str(operations.count)), file.close()), exitpriority=0)


@dataclass(frozen=True)
class Break:
    """Setup for a child: break its operation number `at`, by death or with an error number."""

    at: int
    refuse: int | None = None

    def __call__(self) -> None:
        Operations(self.at, self.refuse).install()


@dataclass(frozen=True)
class Slow:
    """Setup for a child: let each round take longer, so that something can happen in it."""

    seconds: float

    def __call__(self) -> None:
        from glocalfair.engines.simulator import Simulator

        real = Simulator.step

        def step(self_: Simulator, state: SimulationState) -> tuple[SimulationState, dict[str, Any]]:
            time.sleep(self.seconds)
            return real(self_, state)

        Simulator.step = step  # type: ignore[method-assign]
