"""Fill the table of docs/bad-input.md with what the program says to each bad input.

python tools/bad_input_table.py            writes it
python tools/bad_input_table.py --check    says whether it is up to date (exit code 1 if not)
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.reliability.bad_inputs import CASES, glocalfair, good_folder  # noqa: E402

PAGE = ROOT / "docs" / "bad-input.md"
MARKED = re.compile(r"(<!-- bad inputs -->\n).*?(<!-- end -->)", re.DOTALL)


def row(area: str, what: str, message: str) -> str:
    """Return a line of the table."""
    shown = message.replace("|", "\\|")
    return f"| {area} | {what} | {shown} |"


def said(stderr: str, folder: Path) -> str:
    """Return the message without the place of the folder, and without lists that grow with the package."""
    message = re.sub(rf"{re.escape(str(folder.resolve().parent))}/\w+/", "", stderr.strip())
    return re.sub(r"(Known|Partitions that do): .*?(?= See '|$)", r"\1: …", message)


def table() -> str:
    """Try all cases and return the table."""
    lines = ["| input | what is wrong | what you see |", "|---|---|---|"]
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        good = Path(name).resolve() / "good"
        good.mkdir()
        os.chdir(good)
        good_folder(good)
        for number, case in enumerate(CASES):
            folder = good.with_name(f"case{number}")
            shutil.copytree(good, folder)
            os.chdir(folder)
            case.spoil(folder)
            done = glocalfair(case.command.replace(str(good), str(folder)))
            lines.append(row(case.area, case.what, said(done.stderr, folder)))
        os.chdir(before)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    page = PAGE.read_text("utf-8")
    after = MARKED.sub(lambda match: match[1] + table() + match[2], page)
    if "--check" in sys.argv[1:]:
        raise SystemExit(0 if page == after else f"{PAGE} is out of date: run python {sys.argv[0]}")
    PAGE.write_text(after, "utf-8")
