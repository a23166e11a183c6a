"""``--engine flower``: an experiment through Flower's simulation gives what the embedded engine gives."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the flower extra")

from glocalfair.runs import RunDirectory, read_safetensors
from tests.flower.deploy import BIN
from tests.flower.groups import glocalfair, simulated, weights_of, write_app, write_tables

RUN = "run synthetic --method ditto --rounds 2 --partition iid --clients 3 --set data.rows=300 --set run.dtype=float64"


# Ray takes half a minute to start, longer on a busy machine.
@pytest.mark.timeout(900)
def test_same_experiment_same_result(tmp_path: Path) -> None:
    """Ditto, because its clients keep models of their own, on which the local figures are measured."""
    there, here = tmp_path / "flower", tmp_path / "embedded"
    # A process of its own: Ray leaves threads and warnings behind.
    words = [str(BIN / "glocalfair"), *RUN.split(), "--engine", "flower", "--output", str(there), "--quiet"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "RAY_TMPDIR": "/tmp"})
    assert done.returncode == 0, done.stdout + done.stderr
    glocalfair(*RUN.split(), "--output", str(here), "--quiet")
    one, two = (read_safetensors(RunDirectory(path).model)[0] for path in (there, here))
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        np.testing.assert_allclose(tensor, two[name], rtol=0, atol=1e-12)
    results: list[dict[str, Any]] = [json.loads((path / "result.json").read_text()) for path in (there, here)]
    for part in ("global", "local", "counts"):
        assert results[0][part] == results[1][part]
    assert "complete" in glocalfair("run", "--resume", str(there))


@pytest.mark.slow  # Ray starts twice
@pytest.mark.timeout(900)
def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    """Ctrl-C after the first rounds, then ``--resume``: the clients' own models are those of a run in one go."""
    there, here = tmp_path / "flower", tmp_path / "embedded"
    words = [*RUN.replace("--rounds 2", "--rounds 12").split(), "--quiet", "--output"]
    environment = {**os.environ, "RAY_TMPDIR": "/tmp"}
    program, pipes = str(BIN / "glocalfair"), {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    begun: subprocess.Popen[str] = subprocess.Popen(
        [program, *words, str(there), "--engine", "flower"], env=environment, **pipes
    )
    while begun.poll() is None and not RunDirectory(there).checkpoint.exists():
        time.sleep(0.02)
    begun.send_signal(signal.SIGINT)
    said, _ = begun.communicate(timeout=300)
    assert begun.returncode == 130 and "Continue with: glocalfair run --resume" in said, said
    done = len(RunDirectory(there).rounds.read_text().splitlines())
    assert 1 <= done < 12
    again = subprocess.run([program, "run", "--quiet", "--resume", str(there)], env=environment, **pipes)
    assert again.returncode == 0, again.stdout
    glocalfair(*words, str(here))
    one, two = (json.loads((path / "result.json").read_text()) for path in (there, here))
    assert one["rounds"] == 12
    for part in ("global", "local", "counts"):
        assert one[part] == two[part]
    models = [read_safetensors(RunDirectory(path).model)[0] for path in (there, here)]
    for name, tensor in models[0].items():
        np.testing.assert_allclose(tensor, models[1][name], rtol=0, atol=1e-12)


def test_what_needs_the_embedded_engine_is_said(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from glocalfair.cli import main

    words = ["run", "synthetic", "--engine", "flower", "--set", "train.dropout=0.5", "--output", str(tmp_path / "x")]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2 and "'train.dropout' is for simulations" in done.output


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_generated_app_on_flowers_simulation(tmp_path: Path) -> None:
    """``flwr run APP local``, as the page says; Flower's daemon is ended by its home, which is only ours."""
    write_tables(tmp_path)
    app = write_app(tmp_path, "app", "glocalfair", rounds=2)
    home = tmp_path / "flwr"
    home.mkdir()
    (home / "config.toml").write_text('[superlink.local]\naddress = ":local:"\n')
    environment = {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "OMP_NUM_THREADS": "1",
    }
    words = [str(BIN / "flwr"), "run", str(app), "local", "--stream", "--federation-config", "num-supernodes=4"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=800)
    finally:
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"FLWR_HOME={home}".encode() in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)
    assert "Round 2/2: 4 of 4 sites" in done.stdout + done.stderr, done.stdout + done.stderr
    found = weights_of(app / "run" / "model.glocalfair")
    np.testing.assert_allclose(found, simulated(tmp_path, app), rtol=0, atol=1e-6)


WITHOUT = """
import sys

sys.modules["flwr"] = None
import importlib, pkgutil
import glocalfair.flower
from glocalfair.errors import GlocalfairError

for each in pkgutil.iter_modules(glocalfair.flower.__path__):
    if each.name not in ("apps", "strategy"):
        importlib.import_module(f"glocalfair.flower.{each.name}")
for name in glocalfair.flower.__all__:
    try:
        getattr(glocalfair.flower, name)
    except GlocalfairError as error:
        assert "pip install 'glocalfair[flower]'" in str(error)
    else:
        raise AssertionError(name)
from glocalfair.cli import main

main(["flower", "init", "app", "--schema", "schema.json"])
"""


def test_without_flower_everything_imports_and_says_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr == "Error: This needs Flower. Install it with: pip install 'glocalfair[flower]'.\n"
