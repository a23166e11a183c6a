"""Fill the table of docs/privacy.md with what the methods declare.

python tools/method_tables.py            writes it
python tools/method_tables.py --check    says whether it is up to date (exit code 1 if not)
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from glocalfair.registry import method, methods

PAGE = Path(__file__).parents[1] / "docs" / "privacy.md"
MARKED = re.compile(r"(<!-- methods -->\n).*?(<!-- end -->)", re.DOTALL)
PROTECTS = {"none": "none", "single": "one, or the intersection", "joint": "all, jointly"}


def table() -> str:
    """Return a row for each registered method with its default settings."""
    lines = [
        "| method | attributes protected in a run | once, when a client enrols | in every round |",
        "|---|---|---|---|",
    ]
    for name, kind in methods().items():
        sent = method(name).discloses()
        once = "; ".join(d.text for d in sent if d.once) or "the number of training examples"
        always = "; ".join(d.text for d in sent if not d.once)
        lines.append(f"| `{name}` | {PROTECTS[kind.attributes]} | {once} | {always} |")
    return "\n".join(lines) + "\n"


def fill(text: str) -> str:
    """Return the page with a fresh table."""
    return MARKED.sub(lambda match: match[1] + table() + match[2], text)


if __name__ == "__main__":
    before = PAGE.read_text("utf-8")
    after = fill(before)
    if "--check" in sys.argv[1:]:
        raise SystemExit(0 if before == after else f"{PAGE} is out of date: run python {sys.argv[0]}")
    PAGE.write_text(after, "utf-8")
