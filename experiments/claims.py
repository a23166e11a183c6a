"""Which claims of the paper hold on real data? Does Gini predict EOD, and does γ do anything?

    python experiments/claims.py            # about fifteen minutes on 2 cores
    python experiments/claims.py --quick    # 2 seeds, 4 rounds: to see that it runs

Writes experiments/results/adult-claims.md. Correlations are Spearman's, inside each round (what the server sees when
it weighs the clients of one round), averaged over rounds and seeds; intervals are 95 % bootstrap intervals over
blocks of ten rounds of all seeds. EOD of a client's model is measured on all clients' validation rows.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
FEDERATIONS: dict[str, dict[str, Any]] = {
    "Dirichlet .5, 20 clients": {"partition.name": "dirichlet", "partition.clients": 20, "partition.alpha": 0.5},
    "power law .5, 20 clients": {"partition.name": "power_law", "partition.clients": 20, "partition.alpha": 0.5},
}
TRAINING: dict[str, dict[str, Any]] = {
    "plain training": {"method.name": "glocalfair", "method.constraints": [], "method.gamma": 0.0},
    "the paper's game": {"method.name": "glocalfair-paper", "method.gamma": 0.0},
    "anchored dual": {"method.name": "glocalfair", "method.gamma": 0.0},
}
GAMMAS: dict[str, dict[str, Any]] = {
    "γ = 0 (FedAvg's weights)": {"method.gamma": 0.0},
    "γ = .6, raw (the paper)": {"method.gamma": 0.6},
    "γ = 10, raw": {"method.gamma": 10.0},
    "γ = .6, of the update": {"method.gamma": 0.6, "method.gini_of": "update"},
    "γ = .6, standardised": {"method.gamma": 0.6, "method.gini_scale": "standardised"},
    "γ = 2, standardised": {"method.gamma": 2.0, "method.gini_scale": "standardised"},
}


def run(federation: str, method: dict[str, Any], seed: int, rounds: int, watch: bool) -> dict[str, Any]:
    """Run once; return the final figures and each round's (Gini, EOD) of the clients' models."""
    import torch

    from glocalfair.config import load
    from glocalfair.experiment import Experiment

    torch.set_num_threads(1)
    shared = {"train.rounds": rounds, "train.participation": 0.5, "run.seed": seed, "run.evaluate_clients": watch}
    shared |= {"run.evaluate_every": 1 if watch else rounds, "run.evaluate_clients_every": 1}
    overrides = sorted(
        {**FEDERATIONS[federation], **shared, **method}.items(), key=lambda i: not i[0].endswith(".name")
    )
    seen: list[dict[str, list[float]]] = []
    shares: list[float] = []

    def watcher(record: Any) -> None:
        models = record.get("client_models", {})
        gini = record["server"]["gini"]
        coefficients = np.array(list(record["server"]["coefficients"].values()))
        shares.append(float(coefficients.max()))
        if models:
            eods = {a: [models[c]["eod"][a] for c in models] for a in ("sex", "race")}
            seen.append({"gini": [gini[c] for c in models], **eods})

    result = Experiment.prepare(load("adult", overrides)).run(on_round=watcher)
    figures = {a: result["global"]["eod"][a] for a in ("sex", "race")}
    return {"seen": seen, "accuracy": result["global"]["accuracy"], "shares": shares, **figures}


def spearman(x: list[float], y: list[float]) -> float:
    """Return the rank correlation; NaN if one side does not vary."""
    a, b = (np.argsort(np.argsort(v)).astype(float) for v in (x, y))
    return float(np.corrcoef(a, b)[0, 1]) if a.std() and b.std() else float("nan")


def interval(values: list[float]) -> str:
    """Write mean and bootstrap interval."""
    clean = np.array([v for v in values if v == v])
    # Neighbouring rounds are alike: blocks of ten are drawn, not rounds.
    blocks = np.array_split(clean, max(2, len(clean) // 10))
    chosen = np.random.default_rng(0).integers(len(blocks), size=(2000, len(blocks)))
    draws = np.array([np.concatenate([blocks[i] for i in row]).mean() for row in chosen])
    low, high = np.quantile(draws, [0.025, 0.975])
    return f"{clean.mean():+.2f} [{low:+.2f}, {high:+.2f}]"


def paired(values: list[float], baseline: list[float]) -> str:
    """Write the mean difference and its standard error over seeds."""
    difference = np.array(values) - np.array(baseline)
    return f"{difference.mean():+.4f} ± {difference.std(ddof=1) / np.sqrt(len(difference)):.4f}"


def main() -> None:
    """Run, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    options.output = options.output or (Path(tempfile.mkdtemp()) if options.quick else RESULTS)
    seeds, rounds, sweeps = (range(2), 4, range(2)) if options.quick else (range(3), 40, range(8))
    begun = time.perf_counter()
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        watched = {
            (f, t): [pool.submit(run, f, TRAINING[t], s, rounds, True) for s in seeds]
            for f in FEDERATIONS
            for t in TRAINING
        }
        first = next(iter(FEDERATIONS))
        base = {"method.name": "glocalfair"}
        swept = {g: [pool.submit(run, first, {**base, **GAMMAS[g]}, s, rounds, False) for s in sweeps] for g in GAMMAS}
        correlations = {key: [f.result() for f in futures] for key, futures in watched.items()}
        effects = {key: [f.result() for f in futures] for key, futures in swept.items()}
    lines = [
        "# Adult: two claims of the paper, checked",
        "",
        f"Made by `python experiments/claims.py` ({len(seeds)} seeds for the correlations, {len(sweeps)} for the "
        f"sweep, {rounds} rounds, half of the clients a round; {(time.perf_counter() - begun) / 60:.0f} minutes).",
        "",
        "## Does the Gini coefficient of a client's weights predict its EOD?",
        "",
        "The paper says that a lower Gini coefficient means a fairer model: the correlation should be positive.",
        "",
        "| federation | training | spread of Gini in a round (max − min) | correlation with EOD sex | with EOD race |",
        "|---|---|---|---|---|",
    ]
    for (federation, training), runs in correlations.items():
        seen = [r for result in runs for r in result["seen"][rounds // 4 :]]
        spread = np.mean([max(r["gini"]) - min(r["gini"]) for r in seen])
        found = [interval([spearman(r["gini"], r[a]) for r in seen]) for a in ("sex", "race")]
        lines.append(f"| {federation} | {training} | {spread:.4f} | {found[0]} | {found[1]} |")
    lines += [
        "",
        f"## Does γ do anything? ({first}, `glocalfair`)",
        "",
        "Differences are paired by seed against γ = 0: mean ± standard error.",
        "",
        "| setting | accuracy | EOD sex | EOD race | largest weight of a client |",
        "|---|---|---|---|---|",
    ]
    plain = effects[next(iter(GAMMAS))]
    for name, runs in effects.items():
        cells = [paired([r[k] for r in runs], [r[k] for r in plain]) for k in ("accuracy", "sex", "race")]
        if runs is plain:
            cells = [f"{np.mean([r[k] for r in runs]):.4f}" for k in ("accuracy", "sex", "race")]
        largest = np.mean([np.mean(r["shares"]) for r in runs])
        lines.append(f"| {name} | {' | '.join(cells)} | {largest:.3f} |")
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "adult-claims.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
