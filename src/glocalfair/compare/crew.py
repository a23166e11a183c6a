"""Processes that take one task after another and are gone, all of them, when the work ends or is interrupted.

Written here and not taken from `concurrent.futures`: there a thread of this process keeps the workers, and when Ctrl-C
comes that thread and the interpreter's end race for the same pipes. Here nobody waits but the caller.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
import traceback
from collections.abc import Callable, Generator, Sequence
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from glocalfair.errors import GlocalfairError
from glocalfair.stopping import waiting_for_later

Task = tuple[Any, ...]
Ended = tuple[int, Exception | None]
"""The number of a task and its error."""


def work_off(
    start: Callable[[], None], work: Callable[..., object], tasks: Sequence[Task], workers: int, poll: float
) -> Generator[list[Ended], None, None]:
    """Do tasks in several processes; yield those that ended, at least every `poll` seconds.

    Close it when you leave early (`contextlib.closing`): that ends the processes.

    Parameters
    ----------
    start
        Called first in each process.
    work
        Called with each task; what it returns is not looked at.
    """
    # Spawned and not forked: torch's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    waiting = enumerate(tasks)
    crew: list[SpawnProcess] = []
    doing: dict[Connection, int] = {}
    pipes = contextlib.ExitStack()
    try:
        # Workers take over that Ctrl-C waits: while they load torch they could not say so themselves.
        with waiting_for_later(signal.SIGINT):
            for number, task in islice(waiting, workers):
                pipe, far = context.Pipe()
                pipes.enter_context(pipe)
                # Only the worker keeps its end: when it dies, ours says so.
                with far:
                    process = context.Process(target=_serve, args=(far, start, work))
                    process.start()
                crew.append(process)
                doing[pipe] = number
                pipe.send(task)
        while doing:
            ready = wait(list(doing), poll)
            ended = []
            for pipe in [each for each in doing if each in ready]:
                ended.append((doing.pop(pipe), pipe.recv()))
                for number, task in islice(waiting, 1):
                    doing[pipe] = number
                    pipe.send(task)
            yield ended
    except BaseException as error:
        # Whatever runs now can be continued later: do not let anybody wait for it.
        for process in crew:
            process.kill()
        if isinstance(error, EOFError | ConnectionError):
            raise GlocalfairError(
                "A worker process died, perhaps for lack of memory. Try fewer --workers; finished runs are kept."
            ) from error
        raise
    finally:
        # Whoever waits for a task learns from its pipe that there is none.
        pipes.close()
        for process in crew:
            process.join()


def _serve(pipe: Connection, start: Callable[[], None], work: Callable[..., object]) -> None:
    start()
    # Whoever gave us work may be gone.
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            task: Task = pipe.recv()
            try:
                work(*task)
            except Exception as error:
                pipe.send(_portable(error))
            else:
                pipe.send(None)


def _portable(error: Exception) -> Exception:
    """Make an error that another process can read, with the lines where it happened."""
    lines = "".join(traceback.format_exception(error))
    try:
        error = pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(lines)
    return error
