"""Write the golden figures anew: ``python -m tests.golden.regenerate [METHOD ...]``, all methods if none is named.

Do so only for a change that is meant to change results, and say in CHANGELOG.md which and why.
"""

from __future__ import annotations

import json
import sys

from tests.contract.test_methods import METHODS
from tests.golden.scenarios import figures, first_difference, path


def main(names: list[str]) -> None:
    """Write one file for each method and say what moved."""
    for name in names or METHODS:
        made = figures(name)
        file = path(name)
        moved = first_difference(json.loads(file.read_text()), made) if file.exists() else "new"
        # One line for each training: a change shows in the diff where it happened.
        lines = ",\n".join(json.dumps(entry) for entry in made)
        file.write_text(f"[\n{lines}\n]\n")
        print(f"{name}: {moved[:100] or 'unchanged'}")


if __name__ == "__main__":
    main(sys.argv[1:])
