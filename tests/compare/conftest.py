"""One comparison for all tests that only look at it."""

from __future__ import annotations

from pathlib import Path

import pytest

from glocalfair.compare import Comparison

from .small import compared


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Comparison, Path]:
    root = tmp_path_factory.mktemp("comparison")
    return compared(root, "fedavg", "qffl", "fairfed", "glocalfair"), root
