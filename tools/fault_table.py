"""Run the reliability tests with many faults and write what they counted into docs/reliability.md: ``make faults``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- faults: written by make faults -->", "<!-- faults: end -->"


def counted(folder: Path) -> Counter[tuple[str, str]]:
    """Add up the counts of all tests."""
    total: Counter[tuple[str, str]] = Counter()
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            total[entry["kind"], entry["outcome"]] += entry["count"]
    return total


def table(total: Counter[tuple[str, str]]) -> str:
    """Return the Markdown table, one line for each kind of fault and outcome.

    >>> print(table(Counter({("kill -9", "resumed"): 1200})))
    | fault | tried | outcome |
    |---|---:|---|
    | kill -9 | 1,200 | resumed |
    | **all** | **1,200** | nothing lost |
    """
    lines = ["| fault | tried | outcome |", "|---|---:|---|"]
    lines += [f"| {kind} | {count:,} | {outcome} |" for (kind, outcome), count in sorted(total.items())]
    return "\n".join([*lines, f"| **all** | **{total.total():,}** | nothing lost |"])


def put(text: str, content: str, begin: str = BEGIN, end: str = END) -> str:
    """Replace what stands between two markers of the page.

    >>> put("a [old] z", "new", "[", "]").split()
    ['a', '[', 'new', ']', 'z']
    """
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{PAGE.name} has no '{begin}' … '{end}'.")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def main(arguments: list[str]) -> None:
    """Run the tests; only if all pass, the page gets their counts."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "GLOCALFAIR_FAULTS": folder}
        tests = [sys.executable, "-m", "pytest", "-q", "tests/reliability", "--timeout=3600", *arguments]
        code = subprocess.run(tests, cwd=ROOT, env=environment).returncode
        if code:
            raise SystemExit(f"The tests failed ({code}): the table stays as it was.")
        content = table(counted(Path(folder)))
    PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), content), encoding="utf-8")
    print(content)


if __name__ == "__main__":
    main(sys.argv[1:])
