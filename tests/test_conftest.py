"""Skips fail unless their reason is expected, with and without workers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

def test_passes():
    pass

@pytest.mark.xfail(reason="a known fault")
def test_known_fault():
    assert False

def test_expected():
    pytest.skip("needs chromium")
"""
UNEXPECTED = {
    "call": "def test_bad():\n    pytest.skip('no time')\n",
    "mark": "@pytest.mark.skip(reason='flaky')\ndef test_bad():\n    pass\n",
    "condition": "@pytest.mark.skipif(True, reason='flaky')\ndef test_bad():\n    pass\n",
    "module": "pytest.importorskip('no_such_module')\n",
}


def run(folder: Path, source: str, workers: int) -> subprocess.CompletedProcess[str]:
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    (folder / "test_it.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", str(workers), str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("workers", [0, 1])
def test_expected_skips_and_xfails_pass(tmp_path: Path, workers: int) -> None:
    done = run(tmp_path, TESTS, workers)
    assert done.returncode == 0, done.stdout
    assert "1 passed, 1 skipped, 1 xfailed" in done.stdout


@pytest.mark.parametrize(("kind", "workers"), [*((kind, 0) for kind in UNEXPECTED), ("call", 1), ("module", 1)])
def test_other_skips_fail(tmp_path: Path, kind: str, workers: int) -> None:
    done = run(tmp_path, TESTS + UNEXPECTED[kind], workers)
    assert done.returncode != 0
    assert "unexpected reason" in done.stdout
