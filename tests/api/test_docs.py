"""The Python blocks of the documentation run, page by page, in an empty folder."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

from ..docs.test_commands import ROOT, blocks

PAGES = ["python-api", "own-model", "audit"]


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "my_model", raising=False)
    namespace: dict[str, object] = {}
    ran = 0
    for block in blocks(ROOT / "docs" / f"{page}.md"):
        if block.note[:1] == ["file"]:
            Path(block.note[1]).write_text(block.body, encoding="utf-8")
        elif block.language == "python":
            with warnings.catch_warnings():
                # A reader of the page sees the warnings about the small table; they are no errors.
                warnings.simplefilter("default")
                exec(compile(block.body, page, "exec"), namespace)
            ran += 1
    assert ran
