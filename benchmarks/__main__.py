"""``python -m benchmarks``: measure everything and print the table of ratios, targets and what was reached."""

from __future__ import annotations

import argparse
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import cost, rounds, scale, seeds, server, startup
from benchmarks.plot import growth, speeds
from benchmarks.processes import INSTALLED, REQUIREMENTS, pinned
from benchmarks.table import Line, markdown
from benchmarks.work import CASES, Case

Part = Callable[[], Iterator[Line]]
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


def full(cases: Sequence[Case]) -> dict[str, Part]:
    """All of it: half an hour on two fast cores, more than an hour on two slow ones."""
    return {
        "rounds": lambda: rounds.lines(cases, 30, 5, flower=True),
        "cost": lambda: cost.lines(30, 2000, 3),
        "server": lambda: server.lines(server.RESNET34, 30, 7),
        "seeds": lambda: seeds.lines(10, 30, 3),
        "scale": lambda: scale.growth((100, 1_000, 10_000, 100_000), 30, 3, True, ["fedavg", "glocalfair"]),
        "exponents": lambda: scale.exponents((1, 2, 4, 8), 3),
        "start": lambda: startup.lines(3),
    }


def quick(cases: Sequence[Case]) -> dict[str, Part]:
    """The same in short: under three minutes on two slow cores. Flower's simulation starts too slowly for that."""
    return {
        "rounds": lambda: rounds.lines(cases, 16, 1, flower=False),
        "cost": lambda: cost.lines(18, 400, 1, many=["hundred"], longer=5),
        "server": lambda: server.lines(server.RESNET34, 4, 3),
        "seeds": lambda: seeds.lines(1, 6, 1),
        "scale": lambda: scale.growth((1_000, 10_000), 30, 1, False, ["glocalfair"]),
        "exponents": lambda: scale.exponents((1, 4), 1, ["parameters"]),
        "start": lambda: startup.lines(1),
    }


def tiny(cases: Sequence[Case]) -> dict[str, Part]:
    """Only to see that everything runs."""
    small = [Case(case.name, 4, 2, case.exponent, rows=600) for case in cases[-1:]]
    return {
        "rounds": lambda: rounds.lines(small, 4, 1, flower=False),
        "cost": lambda: cost.lines(4, 40, 1, many=[]),
        "server": lambda: server.lines(1_100_000, 2, 2),
        "scale": lambda: scale.growth((200, 400), 4, 1, True, ["fedavg"]),
        "exponents": lambda: scale.exponents((1, 2), 1, ["clients a round"]),
        "start": lambda: startup.lines(1),
    }


SIZES = {"full": full, "quick": quick, "tiny": tiny}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; `--write` also puts tables and pictures into the documentation."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--only", nargs="+", choices=list(full(())), help="some of the parts", default=[])
    parser.add_argument("--case", choices=("i", "ii", "iii"), help="one of the cases of the rounds")
    parser.add_argument("--write", type=Path, help="folder of performance.md, whose tables and pictures are renewed")
    chosen = parser.parse_args(arguments)
    if chosen.write and (chosen.only or chosen.case):
        parser.error("--write renews the whole page: without --only and --case")
    begun = time.perf_counter()
    found: list[Line] = []
    if not INSTALLED.exists():
        print("pfl-research and Flower are not installed (make bench does it): measured without them", file=sys.stderr)
    cases = [case for case in CASES if chosen.case in (None, case.name.split()[0].strip("()"))]
    for name, part in SIZES[chosen.size](cases).items():
        if chosen.only and name not in chosen.only:
            continue
        for line in part():
            found.append(line)
            print(line, file=sys.stderr, flush=True)
    minutes = (time.perf_counter() - begun) / 60
    how = f"{about()}; measured in {minutes:.1f} minutes by `python -m benchmarks --size {chosen.size}`."
    text = f"{markdown(found)}\n{how}\n"
    print(text)
    if chosen.write:
        write(chosen.write, text, {"perf-rounds.svg": speeds(found), "perf-scale.svg": growth(found)})


def write(docs: Path, text: str, pictures: Mapping[str, str]) -> None:
    """Renew what stands between the two marks of the page, and its pictures."""
    page = docs / "performance.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"{page} has no place for the tables"
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")
    for name, drawing in pictures.items():
        (docs / "img" / name).write_text(drawing, encoding="utf-8")


def about() -> str:
    """Say on which machine and with which versions this was measured."""
    import numpy
    import torch

    from glocalfair import __version__
    from glocalfair.cores import cores

    model = "unknown processor"
    info = Path("/proc/cpuinfo")
    if info.exists():
        model = next((line.partition(": ")[2] for line in info.read_text().splitlines() if "model name" in line), model)
    versions = f"glocalfair {__version__}, torch {torch.__version__}, numpy {numpy.__version__}"
    peers = REQUIREMENTS.read_text(encoding="utf-8") if INSTALLED.exists() else ""
    versions += "".join(f", {name} {number}" for name, number in re.findall(r"(pfl|flwr).*==(\S+)", peers))
    if pinned():
        versions += "; left out of the environment: " + " ".join(f"{name}={value}" for name, value in pinned().items())
    return f"{model}, {cores()} cores, Python {platform.python_version()}, {versions}"


if __name__ == "__main__":
    main()
