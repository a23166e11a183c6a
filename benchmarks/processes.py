"""Runs a measurement in a process of its own, so that none warms up or crowds out another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PEERS = ROOT / ".venv-bench" / "bin" / "python"
INSTALLED = ROOT / ".venv-bench" / "installed"
"""There once the peers are installed whole."""
REQUIREMENTS = ROOT / "benchmarks" / "requirements-peers.txt"
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


KERNELS = ("OPENBLAS_", "MKL_", "ONEDNN_", "DNNL_", "ATEN_", "NPY_")
"""Begin what tells a library of ours or of a peer's how to compute."""


def pinned() -> dict[str, str]:
    """Return what the environment tells such libraries, as where several machines are to compute alike."""
    return {name: value for name, value in os.environ.items() if name.startswith(KERNELS)}


def surroundings() -> dict[str, str]:
    """Return the environment of whatever is measured, without what is `pinned`: every library chooses by itself."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(KERNELS)}
    return {**kept, **QUIET, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def measure(module: str, *arguments: object, peer: bool = False) -> dict[str, Any]:
    """Run ``python -m benchmarks.<module>`` and return what it reported."""
    python = str(PEERS) if peer else sys.executable
    with tempfile.TemporaryDirectory() as home:
        environment = {**surroundings(), "FLWR_HOME": home}
        done = subprocess.run(
            [python, "-m", f"benchmarks.{module}", *map(str, arguments)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"benchmarks.{module} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result
