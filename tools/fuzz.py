"""Hunt with a coverage-guided fuzzer (atheris) in the parsers of files from others: ``make fuzz``.

python tools/fuzz.py --seconds 60                     all targets, one after the other
python tools/fuzz.py --target bundle --seconds 600    one of them

Whatever is neither read nor refused with a GlocalfairError ends it; the input is kept and the place is told.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
CORPUS = ROOT / "tests" / "reliability" / "corpus"


def hunt(name: str, seconds: int, seed: int, counts: Path, collect: Path) -> None:
    """Fuzz one target in this process; libFuzzer never returns."""
    import atheris

    # Before anything imports them: only instrumented modules tell the fuzzer what an input reached.
    with atheris.instrument_imports(include=["glocalfair"]):
        from tests.reliability import fuzz_targets
    total: Counter[str] = Counter()

    def one(content: bytes) -> None:
        total[fuzz_targets.outcome(name, content)] += 1
        if total.total() % 200 == 0:
            counts.write_text(json.dumps(total))

    collect.mkdir(parents=True, exist_ok=True)
    for number, good in enumerate(fuzz_targets.seeds(name)):
        (collect / f"seed{number}").write_bytes(good)
        # What is imported on first use must not count as a slow input.
        fuzz_targets.outcome(name, good)
    options = [f"-max_total_time={seconds}", f"-seed={seed}", "-max_len=4096", "-timeout=60", "-rss_limit_mb=3000"]
    options += ["-print_final_stats=1", f"-artifact_prefix={Path.cwd()}/fuzz-{name}-"]
    saved = [str(CORPUS / name)] if (CORPUS / name).exists() else []
    atheris.Setup([sys.argv[0], *options, str(collect), *saved], one)
    atheris.Fuzz()


def all_targets(names: list[str], seconds: int, seed: int, collect: Path | None = None) -> dict[str, dict[str, int]]:
    """Fuzz each target in a process of its own; return how many inputs were read and refused."""
    found = {}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            counts = Path(folder) / "counts.json"
            command = [sys.executable, __file__, "--target", name, "--seconds", str(seconds), "--seed", str(seed)]
            places = ["--counts", str(counts), "--collect", str(collect / name if collect else Path(folder) / name)]
            done = subprocess.run([*command, *places], capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{name}: the fuzzer found something.\n{done.stderr[-4000:]}")
            found[name] = json.loads(counts.read_text()) if counts.exists() else {}
            covered = [line for line in done.stderr.splitlines() if " cov: " in line]
            print(f"{name}: {found[name]}; {covered[-1].strip() if covered else ''}", flush=True)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=["bundle", "checkpoint", "schema"])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--collect", type=Path, metavar="DIR", help="keep the inputs that reached something new")
    parser.add_argument("--counts", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.counts:
        hunt(chosen.target, chosen.seconds, chosen.seed, chosen.counts, chosen.collect)
    else:
        names = [chosen.target] if chosen.target else ["bundle", "checkpoint", "schema"]
        all_targets(names, chosen.seconds, chosen.seed, chosen.collect)
