"""Every method gives the figures that were written down: a change that should change nothing changes nothing."""

from __future__ import annotations

import copy
import json

import pytest

from tests.contract.test_methods import METHODS
from tests.golden.scenarios import FOLDER, TOLERANCE, figures, first_difference, path


@pytest.mark.parametrize("name", METHODS)
def test_the_figures_have_not_moved(name: str) -> None:
    assert path(name).exists(), f"Write the figures of '{name}' with: python -m tests.golden.regenerate {name}"
    moved = first_difference(json.loads(path(name).read_text()), figures(name))
    assert not moved, f"{moved}. If that is meant: python -m tests.golden.regenerate {name}"


def test_there_are_no_figures_of_methods_that_do_not_exist() -> None:
    assert {file.stem for file in FOLDER.glob("*.json")} == set(METHODS)


def test_a_small_change_is_seen() -> None:
    old = json.loads(path("fedavg").read_text())
    new = copy.deepcopy(old)
    new[1]["weights"][3] += 10 * TOLERANCE * max(1, abs(new[1]["weights"][3]))
    assert first_difference(old, new).startswith("[1].weights[3]: ")
    del new[0]["rounds"][2]["loss"]
    assert first_difference(old, new).startswith("[0].rounds[2].loss: ")
