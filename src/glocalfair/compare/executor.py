"""Runs many jobs over the cores, by processes that share nothing; what is finished already is left alone."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from glocalfair import config as configuration
from glocalfair.compare import worker
from glocalfair.compare.jobs import Job
from glocalfair.cores import cores
from glocalfair.errors import GlocalfairError, invalid
from glocalfair.runs import RunDirectory
from glocalfair.stopping import waiting_for_later

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
    others = set(multiprocessing.active_children())
    # Spawned and not forked: torch's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with _one_thread(), ProcessPoolExecutor(workers, context, worker.start) as pool:
        futures: dict[Future[Any], Job] = {}
        try:
            # Workers take over that Ctrl-C waits: while they load torch they could not say so themselves.
            with waiting_for_later(signal.SIGINT):
                for job in waiting:
                    values = configuration.to_mapping(job.config)
                    futures[pool.submit(worker.execute, values, str(job.path))] = job
            while futures:
                done, _ = wait(futures, _POLL, FIRST_COMPLETED)
                for future in done:
                    job = futures.pop(future)
                    with _explained(job):
                        future.result()
                    progress.finish(job)
                progress.tell()
        except BrokenProcessPool as error:
            raise GlocalfairError(
                "A worker process died, perhaps for lack of memory. Try fewer --workers; finished runs are kept."
            ) from error
        except BaseException:
            # Whatever runs now can be continued later: do not let anybody wait for it.
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
            raise


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
