"""Kill -9 at any moment, as often as you like: the run that goes on ends like one that was never touched."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from glocalfair.engines.state import SimulationState
from glocalfair.errors import GlocalfairError
from glocalfair.registry import methods
from glocalfair.runs import RunDirectory
from glocalfair.types import ServerState
from tests.reliability import processes
from tests.reliability.conftest import Faults
from tests.reliability.processes import Break, Count, assert_same, command, complete

KILLED = -signal.SIGKILL
IDENTICAL = "model and log bit-identical after --resume"

CASES: dict[str, tuple[str, ...]] = {name: ("--method", name) for name in sorted(methods())} | {
    "early stopping": ("--set", "train.early_stopping=2", "--set", "train.lr=1.0"),
    "mean of the last models": ("--set", "train.average_last=3", "--set", "run.checkpoint_every=2"),
    "rare checkpoints": ("--method", "glocalfair", "--set", "run.checkpoint_every=4", "--set", "run.evaluate_every=2"),
}
each_case = pytest.mark.parametrize("case", CASES)


def kill_until(tmp_path: Path, whole: Path, case: str, kills: int, one_life: Callable[[Path], int]) -> int:
    """Start run after run, each killed by `one_life` until it says that it came through, for so many kills in all."""
    done = life = 0
    while done < kills:
        life += 1
        folder = tmp_path / f"life{life}"
        while (code := one_life(folder)) == KILLED:
            done += 1
            if done >= kills:
                complete(folder, tmp_path / "told", *CASES[case])
                break
        assert code in (0, KILLED), (tmp_path / "told").read_text()
        assert_same(folder, whole)
    return done


@each_case
def test_killed_inside_an_operation_on_files(case: str, tmp_path: Path, faults: Faults) -> None:
    told = tmp_path / "told"
    whole = complete(tmp_path / "whole", told, *CASES[case], setup=Count(tmp_path / "count"))
    operations = int((tmp_path / "count").read_text())
    assert operations > 30
    draw = random.Random(case)

    def one_life(folder: Path) -> int:
        return processes.run(*command(folder, *CASES[case]), told=told, setup=Break(draw.randint(1, operations)))

    kills = kill_until(tmp_path, whole, case, faults.number(1, 20), one_life)
    faults.record("kill -9 inside a write, sync or rename", IDENTICAL, kills)


@pytest.mark.parametrize("case", ["fedavg", "glocalfair", "glocalfair-paper"])
def test_killed_at_a_random_time(case: str, tmp_path: Path, faults: Faults) -> None:
    told = tmp_path / "told"
    begun = time.monotonic()
    whole = complete(tmp_path / "whole", told, *CASES[case])
    took = time.monotonic() - begun
    draw = random.Random(case)

    def one_life(folder: Path) -> int:
        process = processes.start(*command(folder, *CASES[case]), told=told)
        process.join(draw.uniform(0, took))
        process.kill()
        return processes.finish(process)

    kills = kill_until(tmp_path, whole, case, faults.number(1, 20), one_life)
    faults.record("kill -9 at a random time", IDENTICAL, kills)


def test_the_installed_program_killed_in_a_round(tmp_path: Path, faults: Faults) -> None:
    """The same without any help: a fresh interpreter, killed once its log grows."""
    whole = complete(tmp_path / "whole", tmp_path / "told", *CASES["glocalfair"])
    folder = tmp_path / "run"
    kills = faults.number(1, 3)
    for kill in range(kills):
        arguments = [sys.executable, "-m", "glocalfair", *command(folder, *CASES["glocalfair"])]
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
        processes.wait_for(lambda at=kill: processes.lines(folder / "rounds.jsonl") > at)  # type: ignore[misc]
        process.kill()
        assert process.wait() == KILLED
    complete(folder, tmp_path / "told")
    assert_same(folder, whole)
    faults.record("kill -9 of the installed program", IDENTICAL, kills)


def saved(path: Path, rounds: int) -> RunDirectory:
    """Write a log of a client with a name of many bytes, and a checkpoint after so many rounds."""
    directory = RunDirectory(path)
    for number in range(1, 4):
        directory.append({"round": number, "participants": ["Zürich – 病院"]}, 1.5)
    directory.save_state(SimulationState(rounds, ServerState(np.zeros(3), {})))
    return directory


def test_a_log_torn_at_any_byte(tmp_path: Path, faults: Faults) -> None:
    directory = saved(tmp_path, 2)
    whole = directory.rounds.read_bytes()
    second = whole.index(b"\n", whole.index(b"\n") + 1) + 1
    for end in range(second, len(whole) + 1):
        directory.rounds.write_bytes(whole[:end])
        assert [record["round"] for record in directory.load_rounds()] == ([1, 2, 3] if end == len(whole) else [1, 2])
        state = directory.resume()
        assert state is not None and state.round == 2
        assert directory.rounds.read_bytes() == whole[:second]
        assert directory.seconds() == 3.0
    faults.record("log torn at a byte of its last line", "complete rounds read, the torn one comes again", end - second)


def test_a_log_that_was_changed_is_not_continued_in_silence(tmp_path: Path) -> None:
    directory = saved(tmp_path, 3)
    directory.rounds.write_bytes(directory.rounds.read_bytes().split(b"\n")[0] + b"\n")
    with pytest.raises(GlocalfairError, match="lacks rounds that the checkpoint has behind it"):
        directory.resume()


def test_seconds_are_those_of_all_rounds(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert processes.run(*command(folder), told=tmp_path / "told", setup=Break(30)) == KILLED
    directory = RunDirectory(folder)
    state = directory.load_state()
    slow = b"".join(b'{"round": %d, "seconds": 1000.0}\n' % (i + 1) for i in range(state.round))
    directory.timing.write_bytes(slow)
    complete(folder, tmp_path / "told")
    assert directory.load_result()["seconds"] > 1000 * state.round
