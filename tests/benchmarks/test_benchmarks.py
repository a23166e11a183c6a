"""The benchmarks run and do the same work; nothing is asserted about time."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.clock import Laps  # noqa: E402
from benchmarks.plot import plot  # noqa: E402
from benchmarks.table import Line, compared, markdown, ratio  # noqa: E402
from benchmarks.work import Case, make  # noqa: E402

from benchmarks import __main__ as program  # noqa: E402
from benchmarks import processes, rounds, scale  # noqa: E402


def test_the_tiny_form_runs_and_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "PEERS", tmp_path / "no peers here")
    (tmp_path / "img").mkdir()
    (tmp_path / "performance.md").write_text(f"before\n{program.BEGIN}\nold\n{program.END}\nafter\n")
    program.main(["--size", "tiny", "--write", str(tmp_path)])
    printed = capsys.readouterr().out
    for part in ("1 rounds", "3 server", "6 start"):
        assert part in printed
    page = (tmp_path / "performance.md").read_text()
    assert page.startswith("before\n") and page.endswith("after\n") and "old" not in page
    assert "| 3 server |" in page and (tmp_path / "img" / "perf-scale.svg").exists()
    error = re.search(r"relative error of the Gini coefficient *\| (\S+)", printed)
    assert error is not None and float(error[1]) <= 1e-9


@pytest.mark.parametrize("size", ["full", "quick"])
def test_every_part_is_measured(size: str) -> None:
    assert set(program.SIZES[size]([])) == {"rounds", "cost", "server", "seeds", "scale", "exponents", "start"}


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
    without = program.about().partition("without ")[2]
    assert all(f"{name}={value}" in without for name, value in told.items())


def test_clients_share_all_rows() -> None:
    work = make(Case("uneven", 50, 5, exponent=0.8, rows=1000))
    sizes = work.edges[1:] - work.edges[:-1]
    assert sizes.sum() == 1000 and sizes.min() >= 1 and sizes[0] > 3 * sizes[-1]


def test_ratios_are_taken_within_a_repetition() -> None:
    slow = [{"cpu": 2.0}, {"cpu": 40.0}, {"cpu": 3.0}]
    fast = [{"cpu": 1.0}, {"cpu": 10.0}, {"cpu": 1.0}]
    assert ratio(slow, fast) == 3


def test_both_clocks_are_compared() -> None:
    slow, fast = [{"cpu": 2.0, "wall": 6.0}], [{"cpu": 2.0, "wall": 4.0}]
    line = compared("2", "in CPU and wall", slow, fast, target=1.4, better="less")
    assert (line.value, line.wall, line.verdict) == (1, 1.5, "yes")
    assert line.cells()[5] == "1.5 ×"


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
    assert scale.exponent([1, 2, 4, 8], [3, 6, 12, 24]) == pytest.approx(1)


def test_table_and_plot() -> None:
    lines = [
        Line("5 scale", "fedavg, 1,000 clients, 100 a round", 20.0, "ms", note="200 MB in all"),
        Line("5 scale", "fedavg, 10,000 clients, 100 a round", 21.0, "ms", note="260 MB in all"),
        Line("3 server", "average", 3.5, target=3, better="less"),
        Line("1 rounds", "pfl", 12.0, target=10),
    ]
    rows = markdown(lines).splitlines()
    assert "| no " in rows[4] and "| yes " in rows[5]
    drawing = plot(lines)
    assert drawing.count("<polyline") == 2 and "10,000" in drawing
    assert "<polyline" not in plot([])
