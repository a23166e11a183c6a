"""The benchmarks run, the work of engines is compared, and tables say what was measured; nothing is said of time."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.clock import Laps, forget_peak, peak_megabytes  # noqa: E402
from benchmarks.plot import growth, speeds  # noqa: E402
from benchmarks.table import Line, compared, markdown, ratio  # noqa: E402
from benchmarks.work import Case, make  # noqa: E402

from benchmarks import __main__ as program  # noqa: E402
from benchmarks import cost, processes, rounds, scale, server, startup  # noqa: E402


def test_the_tiny_form_runs_and_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "INSTALLED", tmp_path / "no peers here")
    (tmp_path / "img").mkdir()
    (tmp_path / "performance.md").write_text(f"before\n{program.BEGIN}\nold\n{program.END}\nafter\n")
    program.main(["--size", "tiny", "--write", str(tmp_path)])
    printed = capsys.readouterr().out
    for part in (rounds.PART, rounds.TIMES, cost.PART, server.PART, scale.PART, scale.GROWTH, startup.PART):
        assert f"### {part}\n" in printed
    page = (tmp_path / "performance.md").read_text()
    assert page.startswith("before\n") and page.endswith("after\n") and "old" not in page
    assert f"### {server.PART}\n" in page and "targets reached" in page
    assert rounds.NAMES["mlp"] in (tmp_path / "img" / "perf-rounds.svg").read_text()
    assert "<polyline" in (tmp_path / "img" / "perf-scale.svg").read_text()
    error = re.search(r"relative error of the Gini coefficient *\| (\S+)", printed)
    assert error is not None and float(error[1]) <= 1e-9


@pytest.mark.parametrize("size", ["full", "quick"])
def test_every_part_is_measured(size: str) -> None:
    assert set(program.SIZES[size]([])) == {"rounds", "cost", "server", "seeds", "scale", "exponents", "start"}


@pytest.mark.parametrize("some", [["--only", "server"], ["--case", "ii"]])
def test_a_part_does_not_replace_the_page(some: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        program.main([*some, "--write", str(tmp_path)])
    assert "--write renews the whole page" in capsys.readouterr().err


def test_memory_is_that_of_the_process_itself() -> None:
    held = bytearray(400 << 20)  # whose pages take memory once something is written to each
    held[:: 1 << 12] = b"x" * (len(held) >> 12)
    code = "from benchmarks.clock import peak_megabytes; print(peak_megabytes())"
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert 1 < float(told) < 100 < len(held) >> 20 <= peak_megabytes()
    del held
    forget_peak()
    assert peak_megabytes() >= 1


FEWER = """
from benchmarks import cost
prepared = cost.prepared
cost.prepared = lambda kind, name, rounds, rows: prepared(kind, name, rounds, rows // (1 + (name == "glocalfair")))
cost.main("pictures", "3", "600")
"""


def test_another_number_of_steps_is_refused() -> None:
    # In a process of its own: this one has threads, and does not fork well.
    done = subprocess.run([sys.executable, "-c", FEWER], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "glocalfair: other clients or another number of steps than fedavg" in done.stderr


def test_another_average_is_refused() -> None:
    mean = np.linspace(-1, 1, 1000, dtype=np.float32)
    server.check(mean, mean + 1e-8)
    with pytest.raises(AssertionError, match="averages differ by"):
        server.check(mean, mean * np.float32(1.001))


def test_other_work_is_refused() -> None:
    work = make(Case("small", 3, 3, rows=300))
    start = work.loss(work.weights)
    rounds.check("same", {"loss": start - 0.1, "steps": 0}, work, start - 0.1)
    with pytest.raises(AssertionError, match="7 steps instead of 0"):
        rounds.check("other", {"loss": start - 0.1, "steps": 7}, work, start - 0.1)
    with pytest.raises(AssertionError, match="loss"):
        rounds.check("other", {"loss": start, "steps": 0}, work, start - 0.1)
    with pytest.raises(AssertionError, match="nothing was learnt"):
        rounds.check("other", {"loss": start, "steps": 0}, work, start)
    with pytest.raises(AssertionError, match="other clients"):
        rounds.check("mlp", {"loss": start - 0.1, "steps": 0, "participants": [[1]]}, work, start - 0.1)


def test_every_library_chooses_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"OPENBLAS_CORETYPE": "Haswell", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    for name, value in {**told, "KEPT": "yes"}.items():
        monkeypatch.setenv(name, value)
    around = processes.surroundings()
    assert around["KEPT"] == "yes" and not told.keys() & around.keys()
    without = program.about().partition("left out of the environment: ")[2]
    assert all(f"{name}={value}" in without for name, value in told.items())


def test_clients_share_all_rows() -> None:
    work = make(Case("uneven", 50, 5, exponent=0.8, rows=1000))
    sizes = work.edges[1:] - work.edges[:-1]
    assert sizes.sum() == 1000 and sizes.min() >= 1 and sizes[0] > 3 * sizes[-1]


def test_ratios_are_taken_within_a_repetition() -> None:
    slow = [{"cpu": 2.0}, {"cpu": 40.0}, {"cpu": 6.0}]
    fast = [{"cpu": 1.0}, {"cpu": 10.0}, {"cpu": 4.0}]
    assert ratio(slow, fast) == 2, "and not 6 / 4, the ratio of the medians"


def test_both_clocks_are_compared() -> None:
    slow, fast = [{"cpu": 2.0, "wall": 6.0}], [{"cpu": 2.0, "wall": 4.0}]
    line = compared("2", "in CPU and wall", "once", slow, fast, target=1.4, better="less")
    assert (line.value, line.wall, line.verdict) == (1, 1.5, "yes")
    assert line.cell == "1 × (≤ 1.4: yes), wall 1.5"


def test_waiting_is_no_lap(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 2.0, 60.0, 64.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(ticks))
    laps = Laps(cpu=lambda: 0.0)
    laps.mark()
    laps.mark()
    laps.begin()
    laps.mark()
    assert laps.mean().wall == 3 and laps.median(skip=1).wall == 4


def test_exponent_of_a_power() -> None:
    assert scale.exponent([1, 2, 4, 8], [3, 12, 48, 192]) == pytest.approx(2)


def test_the_table_of_a_part_has_a_row_for_each_figure_and_a_column_for_each_case() -> None:
    lines = [
        Line("The server", "average", "few", 3.5, target=3, better="less", turns=(3.25, 3.75)),
        Line("The server", "memory", "few", 175.0, "MB"),
        Line("The server", "average", "many", 2.0, target=3, better="less"),
        Line("Rounds", "pfl", "once", 12.0, target=10),
    ]
    rows = markdown(lines).splitlines()
    assert rows[:1] == ["### The server"]
    assert [cell.strip() for cell in rows[2].split("|")[1:-1]] == ["", "few", "many"]
    assert [cell.strip() for cell in rows[4].split("|")[1:-1]] == [
        "average", "3.5 × (≤ 3: no), 3.25 to 3.75", "2 × (≤ 3: yes)",
    ]  # fmt: skip
    assert [cell.strip() for cell in rows[5].split("|")[1:-1]] == ["memory", "175 MB", ""]
    assert rows[-1] == "2 of 3 targets reached. Not reached: average, few (3.5 of ≤ 3 ×)."
    assert len({len(row) for row in rows[2:6]}) == 1, "columns that line up"


def test_pictures() -> None:
    lines = [
        Line(rounds.TIMES, rounds.NAMES["mlp"], "few", 5.0, "ms"),
        Line(rounds.TIMES, rounds.OTHERS["pfl"], "few", 50.0, "ms"),
        Line(rounds.TIMES, rounds.OTHERS["pfl"], "many", 60.0, "ms"),
        *(Line(scale.PART, f"fedavg: {scale.TIME}", f"{k:,} clients", 20.0 + k / 1e4, "ms") for k in (1000, 10_000)),
        *(Line(scale.PART, f"fedavg: {scale.MEMORY}", f"{k:,} clients", 200.0, "MB") for k in (1000, 10_000)),
        Line(scale.PART, f"fedavg, everybody evaluated: {scale.TIME}", "10,000 clients", 90.0, "ms"),
    ]
    curves = growth(lines)
    assert curves.count("<polyline") == 2 and "10,000" in curves
    bars = speeds(lines)
    assert bars.count("<rect") == 1 + 3 and bars.index("our MLP") < bars.index("pfl-research")
    assert "<polyline" not in growth([]) and speeds([]).count("<rect") == 1
