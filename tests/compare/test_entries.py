"""Which methods, with which settings."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from glocalfair.compare import ENTRIES, choose, read_tuned
from glocalfair.compare.entries import PAPER, names, split_settings
from glocalfair.compare.grids import GRIDS, points
from glocalfair.compare.jobs import plan, repeats
from glocalfair.errors import GlocalfairError
from glocalfair.registry import method, methods

from .small import small


def test_groups_of_methods() -> None:
    assert names("paper") == PAPER
    assert names("all")[: len(ENTRIES)] == ENTRIES
    assert set(names("all")) == set(methods())
    assert names("mine,paper", ["mine"]) == ("mine", *PAPER)


def test_later_settings_win_and_the_experiments_own_come_first() -> None:
    config = replace(small(), method={"name": "fedfb", "alpha": 0.5, "notion": "dp"})
    entry = choose(["fedfb"], config, {"fedfb": {"alpha": 0.2}}, {"fedfb": {"alpha": 2.0}})[0]
    assert entry.settings == {"alpha": 2.0, "notion": "dp"}
    assert choose(["qffl"], config)[0].settings == {}


def test_settings_of_single_methods() -> None:
    common, own = split_settings([("method.qffl.q", 2), ("run.seed", 3), ("method.glocalfair.overrides.k.mode", "x")])
    assert common == [("run.seed", 3)]
    assert own == {"qffl": {"q": 2}, "glocalfair": {"overrides": {"k": {"mode": "x"}}}}


@pytest.mark.parametrize(
    ("key", "message"),
    [("method.q", "method.NAME.key"), ("method.qfl.q", "Did you mean 'qffl'")],
)
def test_settings_of_no_method(key: str, message: str) -> None:
    with pytest.raises(GlocalfairError, match=re.escape(message)):
        split_settings([(key, 1)])


def test_every_setting_is_written_down_and_read_back() -> None:
    for name in methods():
        resolved = choose([name], small())[0].resolved()
        assert method(resolved.pop("name"), resolved) == method(name)


def test_single_attribute_methods_run_once_for_each(tmp_path: Path) -> None:
    config = small()
    entries = choose(["fedavg", "fairfed", "glocalfair"], config)

    def planned(protection: str, *chosen: object) -> list[tuple[str, str | None]]:
        found = plan(config, entries, repeats(config, 1, None), ["a", "b"], protection, tmp_path)  # type: ignore[arg-type]
        return [(job.label, job.attribute) for job in found]

    assert planned("per") == [("fedavg", None), ("fairfed", "a"), ("fairfed", "b"), ("glocalfair", None)]
    assert planned("intersection")[1] == ("fairfed", "intersection")
    entries = choose(["fairfed"], config, {"fairfed": {"attribute": "b"}})
    assert planned("per") == [("fairfed", None)]
    entries = choose(["fairfed"], config, {"fairfed": {"attribute": "c"}})
    with pytest.raises(GlocalfairError, match="Unknown attribute 'c'"):
        planned("per")


def test_places_are_apart_whatever_the_names(tmp_path: Path) -> None:
    config = small()
    layers = {name: {"method": "fairfed"} for name in ("a/b", "a b", "é")}
    found = plan(config, choose(list(layers), config, layers), repeats(config, 2, None), ["x/y", ".."], "per", tmp_path)
    places = [job.path for job in found]
    assert len(set(places)) == len(places) == 12
    assert all(path.resolve().is_relative_to(tmp_path.resolve()) for path in places)


def test_folds_keep_the_seed() -> None:
    config = small()
    found = [each for _, each in repeats(config, None, 3).configs(config)]
    assert [(each.split.folds, each.split.fold, each.run.seed) for each in found] == [(3, 0, 0), (3, 1, 0), (3, 2, 0)]
    with pytest.raises(GlocalfairError, match="either"):
        repeats(config, 2, 3)


def test_variants_and_mistakes_in_a_tuned_file(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    path.write_text('[methods."no clusters"]\nmethod = "glocalfair"\ngamma = 0.0\n')
    entry = choose(["no clusters"], small(), read_tuned(path))[0]
    assert (entry.label, entry.method, entry.settings) == ("no clusters", "glocalfair", {"gamma": 0.0})
    for text, message in (
        ("[method.qffl]", "Unknown section"),
        ("[methods.qfl]", "qffl"),
        ("methods = 3", "must hold"),
    ):
        path.write_text(text)
        with pytest.raises(GlocalfairError, match=message):
            read_tuned(path)


@pytest.mark.parametrize("name", GRIDS)
def test_every_point_of_a_grid_is_a_method(name: str) -> None:
    made = [method(name, point) for point in points(name)]
    assert len(set(map(repr, made))) == len(made) > 1
