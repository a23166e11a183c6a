"""Is GLocalFair fairer on real faces? FedAvg, FairFed, FedFB and GLocalFair on UTKFace or CelebA.

    python experiments/faces.py utkface           # about an hour on 2 cores; continues where it stopped
    python experiments/faces.py celeba
    python experiments/faces.py faces --quick     # made-up faces, a few minutes: to see that it runs
    python experiments/faces.py utkface --paper   # the paper's model and size for 3 rounds: does it run?

The pictures are looked for in GLOCALFAIR_DATA and never copied anywhere but to the cache. Settings are those of the
shipped experiment with the budget "standard"; they were chosen on validation rows. Every run has a directory of its
own under runs/faces-SET and is continued if it was interrupted. Writes experiments/results/SET-faces.md and .json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from glocalfair.compare import executor
from glocalfair.compare.jobs import Job
from glocalfair.config import Config, dump, load, to_mapping
from glocalfair.data.registry import build_options, datasets
from glocalfair.experiment import Experiment
from glocalfair.metrics import eod, tables
from glocalfair.runs import RunDirectory, read_safetensors

RESULTS = Path(__file__).parent / "results"
# Settings and the number of seeds. Methods for one attribute protect gender, the figure that is asked for.
METHODS: dict[str, tuple[dict[str, Any], int]] = {
    "fedavg": ({}, 3),
    # It starts from a trained model, and has eight rounds with each client: no warm-up, and a quick dual.
    "glocalfair": ({"dual_lr": 6.0, "warmup": 0.0}, 3),
    "fairfed": ({"attribute": "gender"}, 1),
    "fedfb": ({"attribute": "gender"}, 1),
    "glocalfair-paper": ({}, 1),
}
# The paper's τ for UTKFace; its others are the method's defaults.
OWN: dict[tuple[str, str], dict[str, Any]] = {("utkface", "glocalfair-paper"): {"tau_fnr": 0.06, "tau_fpr": 0.06}}
# The last rounds are each method's own. The ones before are FedAvg's and common to all: an untrained model has no gaps.
OWN_ROUNDS = 16
SHARE = {"utkface": 0.1, "celeba": 0.03, "faces": 0.5}
"""Who takes part in a round at the paper's size: few, because it is to show that it runs."""
QUICK = {"data.rows": 800, "train.rounds": 4}
GOAL, COST = 0.5, 0.03


@dataclass(frozen=True)
class Budget:
    """How much is done."""

    name: str | None
    overrides: tuple[tuple[str, Any], ...] = ()
    seeds: int = 3


def plan(data: str, budget: Budget, root: Path) -> tuple[list[Job], list[Job]]:
    """List the common beginnings, and the runs of the methods that go on from them.

    First seeds come first, so that an interrupted study has every method once.
    """
    whole = load(data, budget.overrides, budget.name)
    common = max(1, whole.train.rounds - OWN_ROUNDS)
    lr = whole.train.lr * whole.train.lr_decay ** (common // whole.train.lr_decay_every)
    begin = replace(whole, method={"name": "fedavg"}, train=replace(whole.train, rounds=common))
    after = replace(whole, train=replace(whole.train, rounds=whole.train.rounds - common, lr=lr))

    def job(name: str, config: Config, seed: int) -> Job:
        config = replace(config, run=replace(config.run, seed=seed))
        return Job(name, None, seed, config, root / name / f"seed{seed}")

    first = [job("start", begin, seed) for seed in range(budget.seeds)]
    then = []
    for name, (settings, seeds) in METHODS.items():
        for seed in range(min(seeds, budget.seeds)):
            model = replace(after.model, warm_start=str(first[seed].path / "model.safetensors"))
            chosen = {"name": name, **settings, **OWN.get((data, name), {})}
            then.append(job(name, replace(after, model=model, method=chosen), seed))
    return first, sorted(then, key=lambda each: each.repeat)


def decode(config: Config) -> None:
    """Decode the pictures once, before several processes want to."""
    entry = datasets()[config.data["name"]]
    if entry.prepare is not None:
        entry.prepare(build_options(entry, {k: v for k, v in config.data.items() if k != "name"}))


def curve(job: Job) -> list[tuple[int, float, float]]:
    """Return round, validation loss and validation accuracy where they were measured."""
    told = [r for r in RunDirectory(job.path).load_rounds() if "validation" in r]
    return [(r["round"], r["validation"]["loss"], r["validation"]["accuracy"]) for r in told]


def flatness(points: list[tuple[int, float, float]]) -> float:
    """Return how much accuracy still rose from the third quarter of the run to the last."""
    if len(points) < 4:
        return float("nan")
    accuracy = np.array([each[2] for each in points])
    quarter = max(1, len(accuracy) // 4)
    return float(accuracy[-quarter:].mean() - accuracy[-2 * quarter : -quarter].mean())


def whole_curve(first: Job, then: Job) -> list[tuple[int, float, float]]:
    """Return the learning curve of the common rounds and of those after them."""
    return curve(first) + [(first.config.train.rounds + number, *rest) for number, *rest in curve(then)]


def on_training_rows(job: Job) -> dict[str, Any]:
    """Return accuracy and EOD of a finished run on its clients' training pictures: all that constraints can see."""
    ready = Experiment.prepare(job.config)
    tensors, _ = read_safetensors(RunDirectory(job.path).model)
    simulator, f = ready.simulator, ready.federation
    rows = np.concatenate([client.train for client in f.clients])
    accepted = simulator.trainer.logits(simulator.network.layout.join(tensors), rows) > 0
    counts = tables(f.y[rows], accepted.astype(int), f.groups[rows], f.attributes)
    return {
        "accuracy": float(np.mean(accepted == f.y[rows])),
        "eod": {a.name: float(eod(counts.table(a.name))[0]) for a in f.attributes},
    }


def measure(jobs: list[Job], beginnings: list[Job]) -> dict[str, Any]:
    """Put the runs of one method together: mean and standard deviation over seeds."""
    curves = [whole_curve(beginnings[job.repeat], job) for job in jobs]
    results = [RunDirectory(job.path).load_result() for job in jobs]
    training = [on_training_rows(job) for job in jobs]
    attributes = [a for a in results[0]["global"]["eod"] if "×" not in a]

    def over(values: list[Any]) -> dict[str, float]:
        clean = np.array([np.nan if v is None else v for v in values], dtype=float)
        return {"mean": float(np.mean(clean)), "std": float(np.std(clean, ddof=1)) if len(clean) > 1 else float("nan")}

    return {
        "seeds": len(results),
        "accuracy": over([r["global"]["accuracy"] for r in results]),
        "positive_rate": over([r["global"]["positive_rate"] for r in results]),
        "majority": float(np.mean([_majority(r) for r in results])),
        "eod": {a: over([r["global"]["eod"][a] for r in results]) for a in attributes},
        "floor": {a: over([r["global"]["noise_floor"]["eod"][a] for r in results]) for a in attributes},
        "excess": {a: over([r["global"]["excess"]["eod"][a] for r in results]) for a in attributes},
        "local_excess": {a: over([r["local"]["excess"]["eod"][a] for r in results]) for a in attributes},
        "dp_dis": over([r["global"]["dp_dis"] for r in results]),
        "training_accuracy": over([t["accuracy"] for t in training]),
        "training_eod": {a: over([t["eod"][a] for t in training]) for a in attributes},
        "test": int(results[0]["global"]["examples"]),
        "minutes": float(np.mean([r["seconds"] for r in results])) / 60,
        "still_rising": float(np.mean([flatness(each) for each in curves])),
        "curve": curves[0],
    }


def _majority(result: dict[str, Any]) -> float:
    counts = np.array(result["counts"]["global"]["counts"])
    by_label = counts.reshape(-1, 2, 2).sum(axis=(0, 2))
    return float(by_label.max() / by_label.sum())


def figure(value: float) -> str:
    """Write a number without its leading zero."""
    return "–" if value != value else f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"


def spread(told: dict[str, float]) -> str:
    """Write mean ± standard deviation."""
    return figure(told["mean"]) + (f" ± {figure(told['std'])}" if told["std"] == told["std"] else "")


def table(found: dict[str, dict[str, Any]]) -> list[str]:
    """Write the comparison as Markdown."""
    attributes = list(next(iter(found.values()))["eod"])
    head = ["method", "seeds", "accuracy"]
    head += [f"{word} {a}" for a in attributes for word in ("EOD", "excess")]
    head += ["DP-Dis", "positive", "training: accuracy", "training: EOD gender", "minutes a run"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for method, told in found.items():
        cells = [method, str(told["seeds"]), spread(told["accuracy"])]
        for a in attributes:
            cells += [spread(told["eod"][a]), spread(told["excess"][a])]
        cells += [spread(told[key]) for key in ("dp_dis", "positive_rate", "training_accuracy")]
        cells += [spread(told["training_eod"]["gender"]), f"{told['minutes']:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def verdict(found: dict[str, dict[str, Any]]) -> list[str]:
    """Say whether what was asked for was reached, in figures."""
    plain, ours = found["fedavg"], found["glocalfair"]
    before, after = (told["excess"]["gender"]["mean"] for told in (plain, ours))
    cost = plain["accuracy"]["mean"] - ours["accuracy"]["mean"]
    halved = after <= GOAL * before
    lines = [
        f"- FedAvg is {figure(plain['accuracy']['mean'] - plain['majority'])} above the majority class "
        f"({figure(plain['majority'])}); its validation accuracy still rose by {figure(plain['still_rising'])} from "
        "the third quarter of the run to the last.",
        f"- GLocalFair's excess gender EOD is {figure(after)}, FedAvg's {figure(before)}: "
        f"{'at most' if halved else 'more than'} half of it.",
        f"- GLocalFair's accuracy is {figure(abs(cost))} {'below' if cost > 0 else 'above'} FedAvg's: "
        f"{'within' if cost <= COST else 'more than'} {figure(COST)}.",
    ]
    if before <= 0:
        lines.append("- FedAvg's gap does not exceed what chance shows on so few pictures: there is nothing to halve.")
    return lines


def write(
    data: str, found: dict[str, dict[str, Any]], first: list[Job], then: list[Job], output: Path, whole: Config
) -> None:
    """Write the page and the figures behind it."""
    jobs, config = first + then, whole
    shown = {k: v for k, v in to_mapping(config).items() if k in ("data", "partition", "split", "model", "train")}
    shown["data"] = {k: v for k, v in shown["data"].items() if k not in ("root", "cache")}
    work = sum(RunDirectory(job.path).load_result()["seconds"] for job in jobs)
    plain, common = found["fedavg"], first[0].config.train.rounds
    lines = [
        f"# {data}: GLocalFair against others on pictures",
        "",
        f"Made by `python experiments/faces.py {data}`: {len(jobs)} runs of one core each, {work / 60:.0f} minutes in "
        f"all. The first {common} of {whole.train.rounds} rounds are FedAvg's and common to all methods of a seed, "
        f"the last {whole.train.rounds - common} are the method's own. {plain['test']:,} test pictures that no client "
        "holds; mean ± standard deviation over seeds, which draw clients, test set and weights anew. The excess is EOD "
        f"minus the noise floor (about {figure(plain['floor']['gender']['mean'])} for gender): what a perfectly fair "
        "model would show on a test set of this size.",
        "",
        *table(found),
        "",
        *verdict(found),
        "",
        "FedAvg's validation accuracy by round (first seed): "
        + ", ".join(f"{number}: {figure(accuracy)}" for number, _, accuracy in plain["curve"])
        + ".",
        "",
        "The budget:",
        "",
        "```toml",
        dump(shown).rstrip(),
        "```",
    ]
    output.mkdir(parents=True, exist_ok=True)
    (output / f"{data}-faces.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = json.dumps(found, indent=1, ensure_ascii=False)
    (output / f"{data}-faces.json").write_text(text.replace("NaN", "null") + "\n", encoding="utf-8")
    print("\n".join(lines))


def paper_size(data: str, rounds: int) -> None:
    """Run the paper's model on the paper's pictures and clients for a few rounds, with a few clients in each."""
    begun = time.perf_counter()
    few = [("train.rounds", rounds), ("run.evaluate_every", rounds), ("train.participation", SHARE[data])]
    config = load(data, few, "full")
    ready = Experiment.prepare(config)
    size, taking_part = ready.simulator.network.layout.trainable, ready.simulator.context(1).participants
    pictures = sum(len(ready.federation.client(name).train) for name in taking_part)
    print(
        f"{config.model.name}, {size:,} parameters, {config.data['side']} px, {len(taking_part)} of "
        f"{len(ready.federation.clients)} clients a round, {pictures:,} pictures in the first"
    )
    result = ready.run(on_round=lambda r: print(f"round {r['round']}: loss {r['loss']:.4f}", flush=True))
    print(
        f"accuracy {result['global']['accuracy']:.3f} after {rounds} rounds, "
        f"{(time.perf_counter() - begun) / 60:.1f} minutes"
    )


def progress(status: executor.Status) -> None:
    """Print how far the runs are."""
    print(f"\r{status.runs}/{status.of_runs} runs, {status.rounds}/{status.of_rounds} rounds", end="", flush=True)


def main() -> None:
    """Run, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", choices=["utkface", "celeba", "faces"])
    parser.add_argument("--quick", action="store_true", help="few rounds, one seed, written to a temporary place")
    parser.add_argument("--paper", type=int, nargs="?", const=3, metavar="ROUNDS", help="the paper's model and size")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--runs", type=Path, help="where the runs are kept; runs/faces-SET by default")
    options = parser.parse_args()
    if options.paper is not None:
        paper_size(options.data, options.paper)
        return
    budget = Budget(None if options.data == "faces" else "standard")
    output = options.output or RESULTS
    root = options.runs or Path("runs") / f"faces-{options.data}"
    if options.quick:
        overrides = tuple((k, v) for k, v in QUICK.items() if options.data == "faces" or not k.startswith("data."))
        budget = Budget(None, overrides, seeds=1)
        temporary = Path(tempfile.mkdtemp())
        output, root = options.output or temporary, options.runs or temporary / "runs"
    first, then = plan(options.data, budget, root)
    decode(first[0].config)
    for jobs in (first, then):
        executor.execute(jobs, options.workers, progress)
        print()
    found = {name: measure([job for job in then if job.label == name], first) for name in METHODS}
    write(options.data, found, first, then, output, load(options.data, budget.overrides, budget.name))


if __name__ == "__main__":
    main()
