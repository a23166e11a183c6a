"""One run of a comparison, from wherever it stands to its result. Runs in a process of its own or in this one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glocalfair import config as configuration
from glocalfair.experiment import Experiment, OnRound
from glocalfair.lock import locked
from glocalfair.runs import RunDirectory


def start() -> None:
    """Prepare a worker process: one thread, no Ctrl-C of its own, and no life after its parent's."""
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow, daemon=True).start()


def _follow() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def execute(values: Mapping[str, Any], path: str, on_round: OnRound | None = None) -> None:
    """Make or continue the run in `path`; its files are the same either way."""
    config = configuration.build(values)
    directory = RunDirectory(Path(path))
    ready = Experiment.prepare(config)
    with locked(directory.path):
        state = directory.resume() if directory.config.exists() else None
        if not directory.config.exists():
            RunDirectory.create(directory.path, config)
        ready.run(directory, state, on_round)
