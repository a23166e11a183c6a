"""Many runs: equal for any number of processes, continued where they stopped, never overwritten."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from glocalfair.compare import choose, compare, executor, worker
from glocalfair.compare.executor import Status
from glocalfair.compare.jobs import Job
from glocalfair.config import to_mapping
from glocalfair.errors import GlocalfairError

from .small import compared, jobs, result, small

FILES = ("config.toml", "rounds.jsonl", "model.safetensors")


def contents(found: list[Job]) -> list[bytes]:
    return [(job.path / name).read_bytes() for job in found for name in FILES]


def test_any_number_of_processes_gives_the_same_files(tmp_path: Path) -> None:
    told: list[Status] = []
    one, two = (jobs(tmp_path / name, "fedavg", "fairfed") for name in ("one", "two"))
    executor.execute(one, 1)
    executor.execute(two, 2, told.append)
    assert contents(one) == contents(two)
    assert told[0] == Status(0, 6, 0, 18)
    assert told[-1] == Status(6, 6, 18, 18)


def test_a_run_that_was_killed_goes_on_and_a_finished_one_stays(tmp_path: Path) -> None:
    whole, cut = (jobs(tmp_path / name, "glocalfair") for name in ("whole", "cut"))
    executor.execute(whole, 1)

    def kill(record: object) -> None:
        if len(stopped) == 1:
            raise KeyboardInterrupt
        stopped.append(record)

    stopped: list[object] = []
    with pytest.raises(KeyboardInterrupt):
        worker.execute(to_mapping(cut[0].config), str(cut[0].path), kill)
    assert not cut[0].finished()
    executor.execute(cut, 1)
    assert contents(whole) == contents(cut)
    # Without its result a run is taken up again at its last checkpoint; the other is not touched.
    before = (cut[1].path / "result.json").stat().st_mtime_ns
    (cut[0].path / "result.json").unlink()
    told: list[Status] = []
    executor.execute(cut, 1, told.append)
    assert told[0] == Status(1, 2, 6, 6)
    assert result(cut[0].path)["global"] == result(whole[0].path)["global"]
    assert (cut[1].path / "result.json").stat().st_mtime_ns == before


def test_other_settings_in_the_same_place_are_refused(tmp_path: Path) -> None:
    compared(tmp_path, "fedavg", seeds=1)
    config = jobs(tmp_path, "fedavg")[0].config
    with pytest.raises(
        GlocalfairError, match=r"fedavg/seed0' holds a run with other settings \(train.rounds: 3, now 5\)"
    ):
        compared(tmp_path, "fedavg", seeds=1, config=replace(config, train=replace(config.train, rounds=5)))


def test_more_seeds_and_methods_use_what_is_there(tmp_path: Path) -> None:
    first = compared(tmp_path, "fedavg", seeds=1).row("fedavg")
    stamp = (tmp_path / "fedavg" / "seed0" / "result.json").stat().st_mtime_ns
    more = compared(tmp_path, "qffl", "fedavg", seeds=2).row("fedavg")
    assert (tmp_path / "fedavg" / "seed0" / "result.json").stat().st_mtime_ns == stamp
    assert more.cells["global.accuracy"].values[0] == first.cells["global.accuracy"].values[0]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_that_fails_is_named(tmp_path: Path, workers: int) -> None:
    found = jobs(tmp_path, "fedavg", "qffl")
    (tmp_path / "qffl").write_text("a file where a directory is needed")
    with pytest.raises(GlocalfairError, match=r"Run 'qffl/seed[01]': Cannot write"):
        executor.execute(found, workers)


def test_the_usual_place_is_found_again_and_never_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = small()
    longer = replace(config, train=replace(config.train, rounds=4))
    places = [
        compare(each, choose(["fedavg"], each), seeds=1, workers=1, experiment="mine")[1]
        for each in (config, longer, config)
    ]
    assert [str(place) for place in places] == ["runs/compare-mine", "runs/compare-mine-2", "runs/compare-mine"]
