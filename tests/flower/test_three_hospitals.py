"""The page "three hospitals", run as it is written: every command, in one shell, with real processes."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the flower extra")

from tests.flower.deploy import BIN, free_ports

PAGE = Path(__file__).parents[2] / "docs" / "three-hospitals.md"


def script() -> str:
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    text = "".join(block for block in blocks if "not in the test" not in block)
    assert text.count("PORT=8000") == 1
    return "set -e\n" + text.replace("PORT=8000", f"PORT={free_ports(4)[0]}")


@pytest.mark.timeout(1800)
def test_copy_and_paste(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    # A session of its own: whatever the page starts ends with the test, also if it fails half-way.
    shell = subprocess.Popen(
        ["bash", "-c", script()],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = shell.communicate(timeout=1500)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    logs = "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}" for log in tmp_path.glob("*.log"))
    assert shell.returncode == 0, said + logs
    assert "Round 3/3: 3 of 3 sites" in said, said + logs
    assert "EOD sex" in said, said
    assert '"event": "finished"' in said, said
    assert (tmp_path / "north-predicted.csv").exists()
