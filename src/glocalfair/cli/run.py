"""``glocalfair run``: from an experiment to a run directory and its tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from glocalfair.cli.data import decode_first
from glocalfair.cli.own_data import FLAGS, allow_own_model, data_options, data_overrides, refuse_import, show_data
from glocalfair.cli.words import WordsCommand
from glocalfair.errors import GlocalfairError, invalid

if TYPE_CHECKING:
    from glocalfair.config import Config
    from glocalfair.experiment import Engine, Experiment
    from glocalfair.runs import RunDirectory

# The short options and the keys of the experiment that they set. Names come first: they reset a section.
SHORT = {
    "method": "method.name",
    "partition": "partition.name",
    "clients": "partition.clients",
    "alpha": "partition.alpha",
    "seed": "run.seed",
    "rounds": "train.rounds",
}


@click.command("run", cls=WordsCommand, short_help="Train on one federation and show how fair the model is.")
@click.argument("experiment", required=False)
@data_options
@click.option("--method", metavar="NAME", help="A method of 'glocalfair list methods', or your own: module:Class.")
@click.option("--partition", metavar="NAME", help="Who holds what: a name of 'glocalfair list partitions'.")
@click.option("--clients", type=int, metavar="K", help="Number of organisations, where the partition takes it.")
@click.option("--alpha", type=float, metavar="A", help="Heterogeneity, where the partition takes it: small is uneven.")
@click.option("--seed", type=int, metavar="N", help="Equal seeds give equal results.")
@click.option("--rounds", type=int, metavar="R", help="Number of rounds.")
@click.option("--budget", metavar="NAME", help="A budget of the experiment, such as 'full', where it has some.")
@click.option("--output", type=click.Path(path_type=Path), metavar="DIR", help="Where the run is written.")
@click.option(
    "--engine",
    type=click.Choice(["simulator", "flower"]),
    default="simulator",
    show_default=True,
    help="What runs the rounds; 'flower' is Flower's simulation, slower, with the same result.",
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any other key, such as train.lr=0.05.")
@click.option("--resume", type=click.Path(path_type=Path), metavar="RUN_DIR", help="Continue an interrupted run.")
@click.option("--allow-import", is_flag=True, help="With --resume: import the own code that the run names.")
@click.option("--quiet", is_flag=True, help="Print nothing but the run directory.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object and nothing else.")
def run_command(
    experiment: str | None,
    output: Path | None,
    engine: str,
    settings: tuple[str, ...],
    resume: Path | None,
    allow_import: bool,
    quiet: bool,
    as_json: bool,
    budget: str | None,
    **short: Any,
) -> None:
    """Train on one federation and show how fair the model is.

    EXPERIMENT is a name of 'glocalfair list experiments' or the path of a TOML file. The run is written to
    runs/EXPERIMENT-METHOD-seedN unless --output says otherwise.

    \b
    Examples:
      glocalfair run adult
      glocalfair run adult --partition dirichlet --clients 8 --alpha 0.5 --seed 1
      glocalfair run my.toml --set train.lr=0.05 --set data.rows=2000 --json
      glocalfair run --data people.csv --label approved --positive yes --sensitive sex race --client hospital
      glocalfair run --resume runs/adult-fedavg-seed0
    """
    chosen = [(SHORT[name], short[name]) for name in SHORT if short[name] is not None]
    own = data_overrides(experiment, {name: short[name] for name in ("data", *FLAGS)})
    overrides = own + chosen + [_setting(text) for text in settings]
    if resume is not None:
        if experiment is not None or overrides or output is not None or budget is not None:
            raise GlocalfairError("'--resume' continues a run with its own settings: give no experiment, no others.")
        result = _resume(resume, quiet, as_json, allow_import)
    elif experiment is None and not own:
        raise GlocalfairError("Which experiment? For instance 'glocalfair run adult', or '--resume RUN_DIR'.")
    else:
        ready = _ready(experiment, overrides, budget, quiet, as_json)
        name = Path(experiment or short["data"]).stem
        result = _begin(ready, output or _free(name, ready), quiet or as_json, engine)
    if as_json:
        from glocalfair.runs import jsonable

        click.echo(json.dumps(jsonable(result), allow_nan=False))
    elif quiet:
        click.echo(result["run_dir"])


def _setting(text: str) -> tuple[str, Any]:
    from glocalfair.config import parse_value

    key, equals, value = text.partition("=")
    if not equals:
        raise invalid("--set", "section.key=value", text, "For instance: --set train.lr=0.05")
    return key.strip(), parse_value(value.strip())


def _ready(
    experiment: str | None, overrides: list[tuple[str, Any]], budget: str | None, quiet: bool, as_json: bool
) -> Experiment:
    from glocalfair.config import load

    config = load(experiment, overrides, budget)
    _check_partition(config, overrides)
    allow_own_model(config)
    return _prepare(config, quiet, as_json)


def _begin(ready: Experiment, path: Path, silent: bool, engine: str) -> dict[str, Any]:
    from glocalfair.lock import locked
    from glocalfair.runs import RunDirectory

    with locked(path):
        return _train(ready, RunDirectory.create(path, ready.config), None, silent, engine)


def _check_partition(config: Config, overrides: list[tuple[str, Any]]) -> None:
    """Refuse a number of clients or an alpha that the partition would ignore in silence."""
    from glocalfair.data.partition import PARTITIONS

    name = config.partition.name
    given = {key.removeprefix("partition.") for key, _ in overrides if key.startswith("partition.")}
    for option in sorted(given & {"clients", "alpha"} - set(PARTITIONS[name].options)):
        takers = ", ".join(other for other, entry in PARTITIONS.items() if option in entry.options)
        raise GlocalfairError(f"Partition '{name}' does not use '{option}'. Partitions that do: {takers}.")


def _resume(path: Path, quiet: bool, as_json: bool, allow_import: bool) -> dict[str, Any]:
    from glocalfair.lock import locked
    from glocalfair.runs import RunDirectory

    silent = quiet or as_json
    directory = RunDirectory.open(path)
    if directory.result.exists():
        result = directory.load_result()
        result.pop("counts", None)
        # The directory may have been moved since.
        result["run_dir"] = str(path)
        if not silent:
            click.echo(f"The run in '{path}' is complete; this is its result.\n")
            _show(directory, result)
        return result
    config = directory.load_config()
    refuse_import(config, path, allow_import)
    allow_own_model(config)
    ready = _prepare(config, quiet, as_json)
    _check_data(directory, ready)
    engine = "flower" if directory.enrolment.exists() else "simulator"
    with locked(path):
        return _train(ready, directory, directory.resume(), silent, engine)


def _check_data(directory: RunDirectory, ready: Experiment) -> None:
    """Refuse to go on with other data than the run began with: its clients would no longer hold the same rows."""
    from glocalfair.data.holdings import who_holds_what
    from glocalfair.runs import jsonable, read_json

    if directory.federation.exists():
        before = read_json(directory.federation)
        if before != jsonable(vars(who_holds_what(ready.federation))):
            raise GlocalfairError(f"The data have changed since the run in '{directory.path}' began. Start a new run.")


def _prepare(config: Config, quiet: bool, as_json: bool) -> Experiment:
    decode_first(config, quiet or as_json)
    with _waiting(quiet or as_json):
        from glocalfair.experiment import Experiment

        ready = Experiment.prepare(config)
    show_data(ready.federation, quiet or as_json, quiet)
    return ready


def _waiting(silent: bool) -> Any:
    """Say what the first seconds are spent on, where somebody is watching."""
    from glocalfair.report.console import console

    err = console(stderr=True, quiet=silent)
    return err.status("Loading torch and the data …")


def _free(name: str, ready: Experiment) -> Path:
    """Return the usual place of a run, numbered if it is taken."""
    base = f"{name}-{ready.simulator.method.name}-seed{ready.config.run.seed}"
    path, number = Path("runs") / base, 2
    while path.exists():
        path, number = Path("runs") / f"{base}-{number}", number + 1
    return path


def _train(ready: Experiment, directory: RunDirectory, state: Any, silent: bool, engine: str) -> dict[str, Any]:
    from glocalfair.report.overview import overview
    from glocalfair.report.progress import Progress
    from glocalfair.stopping import Stop

    if not silent:
        from glocalfair.report.console import console

        console().print(overview(ready, directory.path))
    done = state.round if state else 0
    progress = Progress(ready.config.train.rounds, done, silent)
    try:
        with progress, Stop() as stop:
            result = ready.run(directory, state, progress.update, stop, _engine(engine))
    except KeyboardInterrupt as error:
        raise click.Abort(
            f"Interrupted after round {progress.round}. Continue with: glocalfair run --resume {directory.path}"
        ) from error
    if not silent:
        _show(directory, result)
    elif "diverged" in result:
        # Whoever reads nothing else must know this.
        click.echo(f"Warning: {result['diverged']['message']}", err=True)
    return result


def _engine(name: str) -> Engine | None:
    if name == "simulator":
        return None
    from glocalfair.flower.simulation import simulate

    return simulate


def _show(directory: RunDirectory, result: dict[str, Any]) -> None:
    from glocalfair.report.console import console
    from glocalfair.report.result import final_report

    rounds = directory.load_rounds()
    out = console()
    for part in final_report(result, rounds[-1] if rounds else {}):
        out.print(part)
