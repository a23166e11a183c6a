"""The wheel holds all it needs and runs outside of the source tree."""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE_DATA = (
    "glocalfair/py.typed",
    "glocalfair/data/files/adult.parquet",
    "glocalfair/data/files/ATTRIBUTION.md",
    "glocalfair/experiments/adult.toml",
    "glocalfair/experiments/synthetic.toml",
)


def run(command: Sequence[str | Path], folder: Path) -> str:
    # Without PYTHONPATH, or the source tree could be found that way.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel with the build backend that is installed, so that no network is needed."""
    out = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT], out)
    (built,) = out.glob("glocalfair-*.whl")
    return built


def environment(folder: Path) -> Path:
    """Make an empty virtual environment and return its bin directory."""
    run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], folder)
    return folder / "venv" / "bin"


def lend_dependencies(binaries: Path) -> None:
    """Let an empty environment import our dependencies, but not glocalfair.

    A directory named in a .pth file is put on the path without reading the .pth files in it, so the editable
    installation of the source tree stays invisible; `check` makes sure of that.
    """
    python = binaries / "python"
    own = run([python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"], binaries).strip()
    (Path(own) / "lent.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    find = "import importlib.util as u; print(u.find_spec('torch') is not None, u.find_spec('glocalfair') is None)"
    assert run([python, "-c", find], binaries).split() == ["True", "True"]


def check(binaries: Path, folder: Path, *arguments: str) -> None:
    """Run the installed program far from the source tree."""
    where = run([binaries / "python", "-c", "import glocalfair; print(glocalfair.__file__)"], folder)
    assert Path(where).is_relative_to(binaries.parent)
    result = json.loads(run([binaries / "glocalfair", "run", *arguments, "--json"], folder))
    assert (folder / result["run_dir"] / "model.safetensors").exists()


def test_package_data_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert set(PACKAGE_DATA) <= names
        for name in PACKAGE_DATA[1:]:
            assert archive.read(name) == (ROOT / "src" / name).read_bytes()
        assert any(name.endswith("licenses/LICENSE") for name in names)
    sources = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src" / "glocalfair").rglob("*.py")}
    assert sources <= names


def test_the_wheel_runs_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    binaries = environment(tmp_path)
    lend_dependencies(binaries)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", binaries / "python", "install"]
    run([*pip, "--quiet", "--no-deps", "--no-index", wheel], tmp_path)
    check(binaries, tmp_path, "synthetic", "--rounds", "2", "--set", "data.rows=1000")
    check(binaries, tmp_path, "adult", "--rounds", "1")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_wheel_installs_with_its_dependencies(wheel: Path, tmp_path: Path) -> None:
    run([sys.executable, "-m", "venv", tmp_path / "venv"], tmp_path)
    binaries = tmp_path / "venv" / "bin"
    run([binaries / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel], tmp_path)
    check(binaries, tmp_path, "adult", "--rounds", "2")
