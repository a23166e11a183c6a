"""Pin the whole tree of dependencies in constraints.txt, from what is installed here.

python tools/pins.py            writes it
python tools/pins.py --check    says what is not pinned, or pinned to another version (exit code 1)
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
FILE = ROOT / "constraints.txt"


def tree() -> dict[str, str]:
    """Return the installed packages that glocalfair needs, with all its extras, and what these need in turn."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    direct = [
        Requirement(t) for part in (project["dependencies"], *project["optional-dependencies"].values()) for t in part
    ]
    todo = [(canonicalize_name(each.name), tuple(sorted(each.extras))) for each in direct]
    found: dict[str, str] = {}
    seen = set()
    while todo:
        package, wanted = todo.pop()
        if (package, wanted) in seen:
            continue
        seen.add((package, wanted))
        try:
            installed = distribution(package)
        except PackageNotFoundError:
            continue  # an extra that is not installed here
        # A local build such as 2.13.0+cpu is that version.
        found[package] = Version(installed.version).public
        for text in installed.requires or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *wanted)):
                todo.append((canonicalize_name(requirement.name), tuple(sorted(requirement.extras))))
    return dict(sorted(found.items()))


def pinned(text: str) -> dict[str, str]:
    """Read name==version lines.

    >>> pinned("# why\\nnumpy==2.4.6\\n")
    {'numpy': '2.4.6'}
    """
    return {canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)$", text, re.M)}


if __name__ == "__main__":
    text = FILE.read_text("utf-8")
    before, installed = pinned(text), tree()
    wrong = [f"{name}=={version}" for name, version in installed.items() if before.get(name) != version]
    if "--check" in sys.argv[1:]:
        raise SystemExit(f"Not in constraints.txt: {', '.join(wrong)}. Run python tools/pins.py" if wrong else 0)
    heading = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    # What is pinned but not installed here belongs to an extra that somebody else has.
    lines = sorted(f"{name}=={version}\n" for name, version in {**before, **installed}.items())
    FILE.write_text(heading + "".join(lines), "utf-8")
