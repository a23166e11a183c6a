"""Fill the tables of docs/partitions.md with what the code draws today.

    python tools/partition_tables.py            writes them
    python tools/partition_tables.py --check    says whether they are up to date (exit code 1 if not)

A table stands between ``<!-- table {"data": …, "name": …} -->`` and ``<!-- end -->``; the JSON holds the data,
its options under "options", and the fields of the `PartitionSpec`. The seed is 0.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from glocalfair.data import PartitionSpec, SplitSpec, build, from_mapping, load, who_holds_what

PAGE = Path(__file__).parents[1] / "docs" / "partitions.md"
MARKED = re.compile(r"(<!-- table (\{.*?\}) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(settings: str) -> str:
    """Return the table of one federation as a code block."""
    fields = json.loads(settings)
    data = load(fields.pop("data"), **fields.pop("options", {}))
    federation, _ = build(data, from_mapping(PartitionSpec, fields), SplitSpec(), seed=0)
    return f"```text\n{who_holds_what(federation).render(limit=8)}\n```\n"


def fill(text: str) -> str:
    """Return the page with fresh tables."""
    return MARKED.sub(lambda match: match[1] + table(match[2]) + match[3], text)


if __name__ == "__main__":
    before = PAGE.read_text("utf-8")
    after = fill(before)
    if "--check" in sys.argv[1:]:
        raise SystemExit(0 if before == after else f"{PAGE} is out of date: run python {sys.argv[0]}")
    PAGE.write_text(after, "utf-8")
