"""The installed program: quick to answer, clean on stdout, honest exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from glocalfair import __version__

from .invoke import SMALL, glocalfair

PROGRAM = [sys.executable, "-m", "glocalfair"]
HEAVY = ("torch", "rich", "polars", "numpy", "safetensors")


@pytest.mark.parametrize("command", [[], ["run"], ["compare"]])
def test_help_and_import_load_nothing_heavy(command: list[str]) -> None:
    code = (
        "import sys, glocalfair, glocalfair.cli as cli\n"
        f"try:\n cli.main({[*command, '--help']})\nexcept SystemExit: pass\n"
        f"print(*(m for m in {HEAVY} if m in sys.modules), file=sys.stderr, end='')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.parametrize("command", [[], ["run"], ["list"]])
def test_help_teaches_by_examples(command: list[str]) -> None:
    text = glocalfair(*command, "--help").stdout
    assert text.split("Examples:")[1].count("glocalfair ") >= 2


def test_version() -> None:
    assert glocalfair("--version").stdout == f"glocalfair {__version__}\n"


def test_json_is_the_whole_of_stdout(tmp_path: Path) -> None:
    command = [*PROGRAM, "run", *SMALL, "--rounds", "2", "--output", str(tmp_path / "run"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["rounds"] == 2


def test_a_terminal_without_unicode_is_no_reason_to_crash(tmp_path: Path) -> None:
    command = [*PROGRAM, "run", *SMALL, "--rounds", "1", "--output", str(tmp_path / "run")]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [*PROGRAM, "run", *SMALL, "--rounds", "100000", "--output", str(run)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (run / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"glocalfair run --resume {run}" in errors
    assert "Traceback" not in errors
