"""Runs many jobs over the cores, by processes that share nothing; what is finished already is left alone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from glocalfair import config as configuration
from glocalfair.compare import worker
from glocalfair.compare.crew import work_off
from glocalfair.compare.jobs import Job
from glocalfair.cores import cores
from glocalfair.errors import GlocalfairError, invalid
from glocalfair.runs import RunDirectory

_POLL = 0.5
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Status:
    """How far a set of runs is; the rounds say how much work is left."""

    runs: int
    of_runs: int
    rounds: int
    of_rounds: int


OnProgress = Callable[[Status], None]


def execute(jobs: Sequence[Job], workers: int | None = None, on_progress: OnProgress | None = None) -> None:
    """Bring every job to its result.

    Parameters
    ----------
    jobs
        Runs with places of their own.
    workers
        Processes; None for one for each core. With one, or one job, everything happens in this process. The results
        are the same for any number.
    on_progress
        Called now and then, and at the end.
    """
    if workers is not None and workers < 1:
        raise invalid("--workers", "a whole number of at least 1", workers)
    waiting = [job for job in jobs if not job.finished()]
    progress = _Progress(jobs, waiting, on_progress)
    workers = min(workers or cores(), len(waiting))
    if workers <= 1:
        for job in waiting:
            with _explained(job):
                worker.execute(configuration.to_mapping(job.config), str(job.path), lambda _: progress.tell())
            progress.finish(job)
    else:
        _in_parallel(waiting, workers, progress)


class _Progress:
    """Counts runs and rounds; rounds of other processes are counted in their logs."""

    def __init__(self, jobs: Sequence[Job], waiting: Sequence[Job], on_progress: OnProgress | None) -> None:
        self._call = on_progress
        self._of_runs = len(jobs)
        self._of_rounds = sum(job.config.train.rounds for job in jobs)
        self._open = list(waiting)
        self.tell()

    def finish(self, job: Job) -> None:
        self._open.remove(job)
        self.tell()

    def tell(self) -> None:
        if self._call is None:
            return
        # A run that stopped early has all its rounds behind it.
        left = sum(job.config.train.rounds - _rounds(job) for job in self._open)
        self._call(Status(self._of_runs - len(self._open), self._of_runs, self._of_rounds - left, self._of_rounds))


def _rounds(job: Job) -> int:
    # Short lines, and one for each round; the log of rounds may be large.
    log = RunDirectory(job.path).timing
    with contextlib.suppress(OSError):
        return min(log.read_bytes().count(b"\n"), job.config.train.rounds)
    return 0


@contextlib.contextmanager
def _explained(job: Job) -> Iterator[None]:
    try:
        yield
    except GlocalfairError as error:
        raise GlocalfairError(f"Run '{job.name}': {error}") from error


def _in_parallel(waiting: Sequence[Job], workers: int, progress: _Progress) -> None:
    tasks = [(configuration.to_mapping(job.config), str(job.path)) for job in waiting]
    with _one_thread(), contextlib.closing(work_off(worker.start, worker.execute, tasks, workers, _POLL)) as turns:
        for ended in turns:
            for number, error in ended:
                with _explained(waiting[number]):
                    if error is not None:
                        raise error
                progress.finish(waiting[number])
            progress.tell()


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Let processes that start inside have one thread each; numpy reads the environment when it is imported."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
