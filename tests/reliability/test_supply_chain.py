"""What SECURITY.md and constraints.txt say is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("tool", ["security_table.py", "pins.py"])
def test_up_to_date(tool: str) -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools" / tool), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_links_of_the_security_page() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / "SECURITY.md").read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target
