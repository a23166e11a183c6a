"""Processes that take one task after another and are gone, all of them, when the work ends or is interrupted.

Written here and not taken from `concurrent.futures`: there a thread of this process keeps the workers, and when Ctrl-C
comes that thread and the interpreter's end race for the same pipes. Here nobody waits but the caller.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any

from glocalfair.errors import GlocalfairError
from glocalfair.stopping import SIGNALS, noted, waiting_for_later

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
    crew: dict[Connection, SpawnProcess] = {}
    doing: dict[Connection, int] = {}
    try:
        # Workers take over that Ctrl-C waits: while they load torch they could not say so themselves.
        with noted(signal.SIGTERM), waiting_for_later(signal.SIGINT):
            for number, _ in islice(waiting, workers):
                pipe, far = context.Pipe()
                # Only the worker keeps its end: when it dies, ours says so.
                with far:
                    process = context.Process(target=_serve, args=(far, start, work))
                    process.start()
                crew[pipe], doing[pipe] = process, number
        with _alive():
            for pipe, number in doing.items():
                pipe.send(tasks[number])
        while doing:
            ready = wait([*doing, *(crew[pipe].sentinel for pipe in doing)], poll)
            ended = []
            for pipe in [each for each in doing if each in ready or crew[each].sentinel in ready]:
                with _alive():
                    ended.append((doing.pop(pipe), _answer(pipe)))
                    for number, task in islice(waiting, 1):
                        doing[pipe] = number
                        pipe.send(task)
            yield ended
    except BaseException:
        _kill(crew.values())
        raise
    finally:
        # A second Ctrl-C waits now, and if it came before, there is still somebody to kill.
        with noted(*SIGNALS):
            if doing:
                _kill(crew.values())
            # Whoever waits for a task learns from its pipe that there is none.
            for pipe in crew:
                pipe.close()
            for process in crew.values():
                process.join()


def _kill(crew: Iterable[SpawnProcess]) -> None:
    """End processes at once. What they do now can be continued later: nobody is to wait for it."""
    for process in crew:
        process.kill()


@contextlib.contextmanager
def _alive() -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError) as error:
        raise GlocalfairError(
            "A worker process died, perhaps for lack of memory. Try fewer --workers; finished runs are kept."
        ) from error


def _answer(pipe: Connection) -> Exception | None:
    if not pipe.poll():
        # It died so early that, on some systems, its end of the pipe is still open.
        raise EOFError
    error: Exception | None = pipe.recv()
    return error


def _serve(pipe: Connection, start: Callable[[], None], work: Callable[..., object]) -> None:
    start()
    # Whoever gave us work may be gone.
    with contextlib.suppress(EOFError, OSError):
        while True:
            task: Task = pipe.recv()
            try:
                work(*task)
            except (Exception, SystemExit) as error:
                pipe.send(_portable(error))
            else:
                pipe.send(None)


def _portable(error: BaseException) -> Exception:
    """Make an error that another process can read, with the lines where it happened."""
    sent: Exception = RuntimeError(f"{type(error).__name__}: {error}")
    if isinstance(error, Exception):
        with contextlib.suppress(Exception):
            sent = ForkingPickler.loads(ForkingPickler.dumps(error))
    sent.add_note("".join(traceback.format_exception(error)))
    return sent
