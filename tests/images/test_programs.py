"""The programs behind the tables of faces and the speed of picture models, in a tiny form."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def program(path, monkeypatch):
    spec = importlib.util.spec_from_file_location(Path(path).stem + "_program", ROOT / path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_the_study_of_faces_runs_and_goes_on_where_it_stopped(tmp_path, monkeypatch, capsys):
    faces = program("experiments/faces.py", monkeypatch)
    monkeypatch.setattr(faces, "QUICK", {"data.rows": 160, "data.people": 60, "train.rounds": 2})
    arguments = ["faces.py", "faces", "--quick", "--workers", "1", "--runs", str(tmp_path / "runs")]
    monkeypatch.setattr(sys, "argv", [*arguments, "--output", str(tmp_path)])
    faces.main()
    page = (tmp_path / "faces-faces.md").read_text()
    for method in faces.METHODS:
        assert f"| {method} | 1 |" in page
    assert "excess gender EOD" in page and "[train]" in page
    found = json.loads((tmp_path / "faces-faces.json").read_text())
    told = json.loads((tmp_path / "runs" / "fedavg" / "seed0" / "result.json").read_text())
    assert found["fedavg"]["accuracy"]["mean"] == told["global"]["accuracy"]
    stamp = (tmp_path / "runs" / "fedavg" / "seed0" / "result.json").stat().st_mtime_ns
    faces.main()
    assert (tmp_path / "runs" / "fedavg" / "seed0" / "result.json").stat().st_mtime_ns == stamp
    capsys.readouterr()


def test_the_budget_for_the_tables_has_three_seeds(monkeypatch, tmp_path):
    faces = program("experiments/faces.py", monkeypatch)
    for data in ("utkface", "celeba"):
        first, then = faces.plan(data, faces.Budget("standard"), tmp_path)
        seeds = {name: [job.repeat for job in then if job.label == name] for name in faces.METHODS}
        assert seeds["fedavg"] == seeds["glocalfair"] == [0, 1, 2]
        assert {"fairfed", "fedfb", "glocalfair-paper"} <= set(seeds)
        for job in then:
            begin = first[job.repeat]
            assert job.config.model.warm_start == str(begin.path / "model.safetensors")
            assert job.config.run.seed == begin.config.run.seed
            slower = begin.config.train.lr_decay**begin.config.train.rounds
            assert job.config.train.lr == pytest.approx(begin.config.train.lr * slower)


def test_a_curve_that_still_rises_is_told(monkeypatch):
    faces = program("experiments/faces.py", monkeypatch)
    rising = [(i, 0.5, 0.5 + i / 100) for i in range(8)]
    assert faces.flatness(rising) == pytest.approx(0.02)
    assert faces.flatness([(i, 0.5, 0.8) for i in range(8)]) == 0


def test_throughput_beside_a_plain_loop(monkeypatch, capsys):
    images = program("benchmarks/images.py", monkeypatch)
    tiny = ["--side", "32", "--width", "0.125", "--batch", "4", "--steps", "2", "--turns", "1", "--threads", "1"]
    monkeypatch.setattr(sys, "argv", ["images.py", *tiny])
    images.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and all("pictures/s" in line for line in lines[2:])
    assert images.memory("mobilenet_v2", 0.125, 4, 2) > 0
