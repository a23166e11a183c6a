"""``glocalfair compare``: methods side by side on one federation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from glocalfair.cli.own_data import FLAGS, allow_own_model, data_options, data_overrides, find_own_code
from glocalfair.cli.run import SHORT, _check_partition, _setting, _waiting
from glocalfair.cli.words import WordsCommand
from glocalfair.errors import GlocalfairError

if TYPE_CHECKING:
    from glocalfair.compare.comparison import Comparison
    from glocalfair.config import Config
    from glocalfair.report.comparison_progress import ComparisonProgress

FORMATS = ("terminal", "markdown", "latex", "csv", "json")
Function = TypeVar("Function", bound=Callable[..., Any])


def experiment_options(function: Function) -> Function:
    """Add the options that change the experiment for every method, as `run` has them (to a `WordsCommand`)."""
    options = (
        data_options,
        click.option("--partition", metavar="NAME", help="Who holds what: a name of 'glocalfair list partitions'."),
        click.option("--clients", type=int, metavar="K", help="Number of organisations, if the partition takes it."),
        click.option("--alpha", type=float, metavar="A", help="Heterogeneity, if the partition takes it."),
        click.option("--rounds", type=int, metavar="R", help="Number of rounds."),
        click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="train.lr=0.05, method.qffl.q=2 …"),
        click.option("--workers", type=int, metavar="W", help="Processes; one for each core if not given."),
        click.option("--quiet", is_flag=True, help="Print nothing but where the result is."),
        click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object and nothing else."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def load_experiment(
    experiment: str | None, settings: tuple[str, ...], known: list[str], short: dict[str, Any]
) -> tuple[Config, dict[str, dict[str, Any]], str]:
    """Return the configuration with the options applied, the settings of single methods, and a name for it all."""
    from glocalfair.compare.entries import split_settings
    from glocalfair.config import load

    data = data_overrides(experiment, {name: short[name] for name in ("data", *FLAGS)})
    if experiment is None and not data:
        command = f"glocalfair {click.get_current_context().info_name}"
        raise GlocalfairError(f"Which experiment? For instance '{command} adult', or your own table: '--data FILE'.")
    chosen = [(SHORT[name], short[name]) for name in SHORT if short.get(name) is not None]
    common, own = split_settings([_setting(text) for text in settings], known)
    overrides = data + chosen + common
    config = load(experiment, overrides)
    _check_partition(config, overrides)
    allow_own_model(config)
    return config, own, Path(experiment or short["data"]).stem


def interrupted(progress: ComparisonProgress) -> click.Abort:
    """Say after Ctrl-C what is kept."""
    done = f" after {progress.status.runs} of {progress.status.of_runs} runs" if progress.status else ""
    return click.Abort(f"Interrupted{done}. The same command goes on where it stopped.")


@click.command("compare", cls=WordsCommand, short_help="Compare methods on one federation, over several seeds.")
@click.argument("experiment", required=False)
@click.option(
    "--methods",
    metavar="a,b|all|paper",
    help="Which methods, also your own as module:Class; the paper's and glocalfair-paper if not given.",
)
@click.option("--seeds", type=int, metavar="N", help="Repeat over N seeds (5 if neither seeds nor folds are given).")
@click.option("--folds", type=int, metavar="F", help="Repeat over F rotating test folds and pool their counts.")
@click.option("--baseline", metavar="NAME", help="Show differences from this method (fedavg).")
@click.option(
    "--attribute",
    "protection",
    type=click.Choice(["per", "intersection"]),
    default="per",
    help="Methods that protect one attribute run once for each (per), or once on their intersection.",
)
@click.option(
    "--tuned", type=click.Path(path_type=Path), metavar="FILE", help="Settings as 'glocalfair tune' wrote them."
)
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="DIR", help="Where the runs and the result are kept."
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="terminal", help="What is printed.")
@experiment_options
def compare_command(
    experiment: str | None,
    methods: str | None,
    seeds: int | None,
    folds: int | None,
    baseline: str | None,
    protection: Any,
    tuned: Path | None,
    output: Path | None,
    form: str,
    settings: tuple[str, ...],
    workers: int | None,
    quiet: bool,
    as_json: bool,
    **short: Any,
) -> None:
    """Compare methods on one federation, over several seeds or test folds.

    EXPERIMENT is a name of 'glocalfair list experiments' or the path of a TOML file; --data takes your own table. Each
    run is an ordinary run directory below runs/compare-EXPERIMENT, or below --output. The same command again continues
    an interrupted comparison and shows a finished one.

    \b
    Examples:
      glocalfair compare adult --seeds 10
      glocalfair compare adult --methods fedavg,glocalfair --partition dirichlet --clients 8 --alpha 0.5
      glocalfair compare adult --folds 5 --format markdown > adult.md
      glocalfair compare --data people.csv --label approved --sensitive sex race --client hospital
      glocalfair compare adult --tuned tuned.toml --set method.qffl.q=2 --methods all
    """
    form = "json" if as_json else form
    silent = quiet or form == "json"
    with _waiting(silent):
        from glocalfair.compare import ENTRIES, choose, compare, read_tuned
        from glocalfair.compare.entries import names
        from glocalfair.report.comparison_progress import ComparisonProgress

    layers = read_tuned(tuned) if tuned is not None else {}
    if any(":" in name for name in (methods or "", *(str(values.get("method")) for values in layers.values()))):
        find_own_code()
    config, own, name = load_experiment(experiment, settings, list(layers), short)
    # What stands in the file is compared as a matter of course if it is a variant under a name of its own.
    variants = [label for label, values in layers.items() if "method" in values]
    labels = names(methods, layers) if methods is not None else (*ENTRIES, *variants)
    entries = choose(labels, config, layers, own)
    progress = ComparisonProgress(silent)
    try:
        with progress:
            comparison, root = compare(
                config,
                entries,
                output,
                seeds=seeds,
                folds=folds,
                protection=protection,
                baseline=baseline,
                workers=workers,
                experiment=name,
                on_progress=progress.update,
            )
    except KeyboardInterrupt as error:
        raise interrupted(progress) from error
    if quiet and form != "json":
        click.echo(str(root))
    else:
        _show(comparison, root, form)


def _show(comparison: Comparison, root: Path, form: str) -> None:
    from glocalfair.compare.study import FILE

    if form == "json":
        content = json.loads((root / FILE).read_text(encoding="utf-8"))
        click.echo(json.dumps({**content, "output": str(root)}, ensure_ascii=False))
    elif form == "markdown":
        from glocalfair.report.comparison_markdown import markdown

        click.echo(markdown(comparison), nl=False)
    elif form == "latex":
        from glocalfair.report.comparison_latex import latex

        click.echo(latex(comparison), nl=False)
    elif form == "csv":
        from glocalfair.report.comparison_csv import comma_separated

        click.echo(comma_separated(comparison), nl=False)
    else:
        from glocalfair.report.comparison_terminal import terminal
        from glocalfair.report.console import console

        out = console()
        for part in terminal(comparison, out):
            out.print(part)
        out.print(f"\nRuns and {FILE}: {root}", soft_wrap=True)
