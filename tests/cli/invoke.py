"""Runs the command line inside the test, on a federation that trains in a moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from glocalfair.cli import main

SMALL = ["synthetic", "--set", "data.rows=800", "--set", "data.clients=4", "--set", "data.features=3"]


def glocalfair(*arguments: object, width: int = 100) -> Result:
    """Run a command and return exit code, stdout and stderr."""
    return CliRunner(env={"COLUMNS": str(width)}).invoke(main, [str(a) for a in arguments])


def trained(output: Path, *arguments: object, rounds: int = 4) -> dict[str, Any]:
    """Train the small federation into a directory and return the JSON result."""
    done = glocalfair("run", *SMALL, "--rounds", rounds, "--output", output, "--json", *arguments)
    assert done.exit_code == 0, done.output
    result: dict[str, Any] = json.loads(done.stdout)
    return result
