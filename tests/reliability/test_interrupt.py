"""Ctrl-C and the polite end signal: after the round with everything saved, at once when repeated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from glocalfair.runs import RunDirectory
from glocalfair.stopping import handling
from tests.cli.invoke import SMALL as COMPARED
from tests.cli.invoke import glocalfair
from tests.reliability import processes
from tests.reliability.conftest import Faults
from tests.reliability.processes import Slow, assert_same, command, complete, lines, wait_for

RARE = ("--method", "glocalfair", "--set", "run.checkpoint_every=100")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_once_ends_after_the_round(number: int, tmp_path: Path, faults: Faults) -> None:
    told, folder = tmp_path / "told", tmp_path / "run"
    process = processes.start(*command(folder, *RARE), told=told, setup=Slow(0.3))
    wait_for(lambda: lines(folder / "rounds.jsonl") >= 1)
    os.kill(process.pid or 0, number)
    assert processes.finish(process) == 130
    text = told.read_text()
    assert "Stopping after this round; once more to stop at once." in text
    state = RunDirectory(folder).load_state()
    # The checkpoint is of the last round, although it was not due.
    assert 1 <= state.round == lines(folder / "rounds.jsonl") < processes.ROUNDS
    assert f"Interrupted after round {state.round}. Continue with: glocalfair run --resume {folder}" in text
    assert "Traceback" not in text
    assert not list(folder.glob(".*"))
    assert_same(complete(folder, told), complete(tmp_path / "whole", told, *RARE))
    faults.record(f"{signal.Signals(number).name} in a round", "round finished and saved, bit-identical after --resume")


def test_twice_ends_at_once(tmp_path: Path, faults: Faults) -> None:
    told, folder = tmp_path / "told", tmp_path / "run"
    process = processes.start(*command(folder, *RARE), told=told, setup=Slow(60))
    wait_for(lambda: (folder / "federation.json").exists())
    os.kill(process.pid or 0, signal.SIGINT)
    wait_for(lambda: b"once more" in told.read_bytes())
    os.kill(process.pid or 0, signal.SIGINT)
    # Far less than the round takes.
    assert processes.finish(process, timeout=30) == 130
    assert "Traceback" not in told.read_text()
    assert lines(folder / "rounds.jsonl") == 0
    assert_same(complete(folder, told), complete(tmp_path / "whole", told, *RARE))
    faults.record("SIGINT twice in a round", "ended at once, bit-identical after --resume")


def _compare(output: Path) -> list[str]:
    methods = ["--methods", "fedavg,glocalfair", "--seeds", "1", "--rounds", "600", "--workers", "2"]
    return ["compare", *COMPARED, *methods, "--output", str(output), "--quiet"]


def _left(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_comparison_goes_on_and_leaves_nobody_behind(tmp_path: Path, faults: Faults) -> None:
    """As a terminal does it: the signal goes to the whole group of processes, workers included."""
    output = tmp_path / "out"
    for moment in ("first worker starts", "workers load torch", "workers train"):
        before = _rounds(output)
        # Whoever starts these tests in the background lets them ignore Ctrl-C, and what they start would, too.
        with handling(signal.default_int_handler, signal.SIGINT):
            process = subprocess.Popen(
                [sys.executable, "-m", "glocalfair", *_compare(output)],
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        if moment == "workers train":
            wait_for(lambda: _rounds(output) >= before + 2, timeout=200)  # noqa: B023
        else:
            wait_for(lambda: _children(process.pid) >= 2)  # noqa: B023
            time.sleep(0.5 if moment == "workers load torch" else 0)
        os.killpg(process.pid, signal.SIGINT)
        told = process.communicate(timeout=120)[1]
        assert process.returncode == 130, told
        assert "The same command goes on where it stopped." in told
        assert "Traceback" not in told
        wait_for(lambda: not _left(process.pid), timeout=20)  # noqa: B023
    for place in (output, tmp_path / "whole"):
        assert glocalfair(*_compare(place), "--workers", 1).exit_code == 0
    for one in (tmp_path / "whole").rglob("rounds.jsonl"):
        assert_same(output / one.parent.relative_to(tmp_path / "whole"), one.parent)
    faults.record("SIGINT to a comparison and its workers", "no process left, same runs when continued", 3)


def _rounds(output: Path) -> int:
    return sum(lines(log) for log in output.rglob("timing.jsonl"))


def _children(pid: int) -> int:
    """Count the processes that another one started, by the kernel's list."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return len(listed.read_text().split()) if listed.exists() else 0
