"""``glocalfair tune``: choose the strength of each method on validation data."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from glocalfair.cli.compare import experiment_options, interrupted, load_experiment
from glocalfair.cli.run import _waiting
from glocalfair.cli.words import WordsCommand

if TYPE_CHECKING:
    from glocalfair.compare.tuning import Choice, Trial


@click.command("tune", cls=WordsCommand, short_help="Choose the strength of each method on validation data.")
@click.argument("experiment", required=False)
@click.option(
    "--methods", metavar="a,b|all|paper", help="Which methods; the paper's and glocalfair-paper if not given."
)
@click.option("--seeds", type=int, default=3, metavar="N", help="Number of seeds (3).")
@click.option("--budget", type=float, default=0.01, metavar="DROP", help="Accuracy that may be lost to FedAvg (0.01).")
@click.option("--output", type=click.Path(path_type=Path), default="tuned.toml", metavar="FILE", help="(tuned.toml)")
@click.option("--runs", type=click.Path(path_type=Path), metavar="DIR", help="Where the runs are kept.")
@experiment_options
def tune_command(
    experiment: str | None,
    methods: str | None,
    seeds: int,
    budget: float,
    output: Path,
    runs: Path | None,
    settings: tuple[str, ...],
    workers: int | None,
    quiet: bool,
    as_json: bool,
    **short: Any,
) -> None:
    """Choose the strength of each method on validation data, so that a comparison is fair to all.

    Every method is run with each setting of its grid. Chosen is the smallest EOD (mean over attributes) among the
    settings that lose at most DROP of FedAvg's accuracy, both on the clients' validation rows; test rows play no
    part. The choices go to a TOML file for 'glocalfair compare --tuned', with all that was tried as comments.

    \b
    Examples:
      glocalfair tune adult --methods qffl,fairfed,fedfb
      glocalfair tune adult --methods all --seeds 5 --budget 0.02 --output adult-tuned.toml
      glocalfair tune adult --methods fairfed --set 'method.fairfed.local_debias="none"'
    """
    with _waiting(quiet or as_json):
        from glocalfair.compare import ENTRIES, tune, write_tuned
        from glocalfair.compare.entries import names
        from glocalfair.report.comparison_progress import ComparisonProgress
        from glocalfair.runs import jsonable, write_atomically

    labels = names(methods) if methods is not None else ENTRIES
    config, fixed, name = load_experiment(experiment, settings, [], short)
    progress = ComparisonProgress(silent=quiet or as_json)
    try:
        with progress:
            choices, reference, root = tune(
                config,
                labels,
                runs,
                fixed=fixed,
                seeds=seeds,
                budget=budget,
                workers=workers,
                experiment=name,
                on_progress=progress.update,
            )
    except KeyboardInterrupt as error:
        raise interrupted(progress) from error
    heading = [f"Written by: {_command()}", f"Means over {seeds} seeds."]
    output.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(output, write_tuned(choices, reference, budget, heading, fixed).encode())
    if as_json:
        told = {"output": str(output), "runs": str(root), "reference": asdict(reference)}
        click.echo(json.dumps(jsonable({**told, "choices": [asdict(choice) for choice in choices]})))
    elif quiet:
        click.echo(str(output))
    else:
        _show(choices, reference, output)


def _command() -> str:
    # Called from a test or a script there is no command line to quote.
    return shlex.join(["glocalfair", *sys.argv[1:]]) if "tune" in sys.argv else "glocalfair tune"


def _show(choices: Sequence[Choice], reference: Trial, output: Path) -> None:
    from glocalfair.compare.tuning import describe
    from glocalfair.report.console import console
    from glocalfair.report.tables import plain_table, titled
    from glocalfair.report.text import figure

    table = plain_table("method", "tried", "chosen", "accuracy", "mean EOD")
    table.add_row("fedavg (reference)", "", "", figure(reference.accuracy), figure(reference.mean_eod))
    for choice in choices:
        chosen = describe(choice.chosen.settings)
        text = chosen if choice.within else f"{chosen} (over the budget)"
        figures = figure(choice.chosen.accuracy), figure(choice.chosen.mean_eod)
        table.add_row(choice.method, str(len(choice.trials)), text, *figures)
    out = console()
    out.print(titled("Chosen on validation rows", table))
    out.print(f"\nWritten to {output}. Use it with: glocalfair compare … --tuned {output}", soft_wrap=True)
