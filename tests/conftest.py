"""A skip is a hole in the tests: it is accepted for a known reason only, and a failure otherwise."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

# A busy machine is not a slow test. CI takes the same examples each time; elsewhere new ones are tried.
settings.register_profile("default", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("default")

# Test workers already use every core, and small matrices are slower on many threads. Before anything imports torch.
os.environ.setdefault("OMP_NUM_THREADS", "1")

EXPECTED = (
    "needs GLOCALFAIR_DATA",
    "needs chromium",
    "needs the flower extra",
    "needs the mlflow extra",
    "needs the images extra",
    "slow:",
)
"""How the reason of a skip may begin: what is missing can be missing on a good machine."""


def _refuse(report: Any) -> None:
    if report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    # (path, line, reason) from a skip, plain text from unusual plugins.
    longrepr = report.longrepr
    reason = str(longrepr[2] if isinstance(longrepr, tuple) else longrepr).removeprefix("Skipped: ")
    if not reason.startswith(EXPECTED):
        report.outcome = "failed"
        report.longrepr = f"Skipped for an unexpected reason: {reason!r}. Expected reasons begin with {EXPECTED}."


# Outermost, after pytest itself has told xfail from skip; on an xdist worker the changed report is what is sent.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a test's unexpected skip into a failure."""
    report = yield
    _refuse(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a whole module's unexpected skip (importorskip) into a failure."""
    report = yield
    _refuse(report)
    return report
