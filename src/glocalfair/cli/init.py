"""``glocalfair init``: look at a table, ask a few questions, write an experiment file that runs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from glocalfair.cli.words import WordsCommand, WordsOption
from glocalfair.errors import GlocalfairError

if TYPE_CHECKING:
    import polars as pl

_LABELS = (
    *("label", "target", "outcome", "y", "class", "approve", "approved", "reject", "income", "hired", "admitted"),
    *("default", "recid", "arrest", "died", "death", "survived", "readmitted", "churn", "fraud", "takeup"),
)
_SENSITIVE = (
    *("sex", "gender", "male", "female", "race", "ethnicity", "black", "white", "nonwhite", "hispanic", "hispan"),
    *("age", "religion", "nationality", "disability"),
)
_CLIENTS = (
    *("client", "site", "hospital", "clinic", "center", "centre", "bank", "branch", "silo", "school", "village"),
    *("organisation", "organization", "institution"),
)


@click.command("init", cls=WordsCommand, short_help="Look at your table and write an experiment file for it.")
@click.argument("data", required=False)
@click.option("--label", metavar="COLUMN", help="The column to predict.")
@click.option("--positive", metavar="VALUE", help="Which of its two values is positive.")
@click.option("--sensitive", cls=WordsOption, metavar="COLUMN …", help="Sensitive columns, such as sex age:<40.")
@click.option("--client", metavar="COLUMN", help="The column that names the organisation of a row.")
@click.option("--drop", cls=WordsOption, metavar="COLUMN …", help="Columns the model must not see.")
@click.option("--method", metavar="NAME", default="glocalfair", show_default=True, help="How to train.")
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="FILE", help="Where to write; DATA.toml if not given."
)
@click.option("--yes", is_flag=True, help="Ask nothing: take the options, and guess the rest.")
def init_command(
    data: str | None,
    label: str | None,
    positive: str | None,
    sensitive: tuple[str, ...],
    client: str | None,
    drop: tuple[str, ...],
    method: str,
    output: Path | None,
    yes: bool,
) -> None:
    """Look at your table and write a commented experiment file that runs.

    DATA is a CSV or Parquet file. Questions have answers guessed from the file; Enter takes them.

    \b
    Examples:
      glocalfair init people.csv
      glocalfair init people.csv --label approved --sensitive sex race --client hospital --yes
    """
    from glocalfair.data.frame.reading import read, table_name

    if data is None:
        if yes:
            raise GlocalfairError("Which file? For instance 'glocalfair init people.csv --yes'.")
        data = str(click.prompt("Your CSV or Parquet file"))
    frame = read(data)
    ask = _Questions(frame, yes)
    click.echo(f"{data}: {frame.height:,} rows, columns {', '.join(frame.columns)}")
    label = label or ask.label()
    positive = positive or ask.positive(label)
    chosen = sensitive or ask.sensitive(label)
    client = client or ask.client({label, *chosen})
    target = output or Path(f"{table_name(data)}.toml")
    values = {"label": label, "positive": positive, "sensitive": list(chosen), "client": client, "drop": list(drop)}
    values = {k: v for k, v in values.items() if v}
    leaking = ask.leaks(data, values)
    values["drop"] = [*drop, *leaking]
    _write(target, Path(data), values, method)
    who = f"the organisation is '{client}'" if client else "rows are dealt out to 4 organisations"
    click.echo(
        f"The label is '{label}' (positive: {positive}), sensitive: {', '.join(chosen) or 'nothing'}; {who}"
        + (f"; left out, since they give the label away: {', '.join(leaking)}." if leaking else ".")
    )
    click.echo(f"Wrote {target}. Look at its comments, then train with: glocalfair run {shlex.quote(str(target))}")


class _Questions:
    """Each question with its guess; with `yes` the guess is the answer."""

    def __init__(self, frame: pl.DataFrame, yes: bool) -> None:
        self.frame, self.yes = frame, yes

    def label(self) -> str:
        binary = [name for name in self.frame.columns if len(self._values(name)) == 2]
        if not binary:
            raise GlocalfairError("Binary classification only for now: no column of the table has two values.")
        # The label is mostly the last column, and rarely what is sensitive.
        named = [name for name in binary if _matches(name, _LABELS)]
        others = [name for name in binary if not _matches(name, _SENSITIVE)]
        return self._ask("Which column is to be predicted", (named or others or binary)[-1], self.frame.columns)

    def positive(self, label: str) -> str | None:
        from glocalfair.data.frame.label import classes
        from glocalfair.errors import unknown

        if label not in self.frame.columns:
            raise unknown("label column", label, self.frame.columns)
        values = self._values(label)
        try:
            guess = classes(label, values)[1]
        except GlocalfairError:
            if len(values) != 2 or self.yes:
                raise
            guess = values[-1]
        return self._ask(f"Which value of '{label}' is positive", guess, values)

    def sensitive(self, label: str) -> tuple[str, ...]:
        named = [name for name in self.frame.columns if name != label and _matches(name, _SENSITIVE)]
        guess = [self._binned(name) for name in named if len(self._values(name)) > 1]
        if self.yes:
            return tuple(guess)
        question = "Sensitive columns, with spaces between them (age:<40 makes groups)"
        text = str(click.prompt(question, default=" ".join(_quoted(name) for name in guess)))
        try:
            return tuple(shlex.split(text))
        except ValueError as error:
            raise GlocalfairError(f"Cannot read the columns '{text}': {error}.") from error

    def client(self, taken: set[str]) -> str | None:
        named = [name for name in self.frame.columns if name not in taken and _matches(name, _CLIENTS)]
        guess = named[0] if named else ""
        if self.yes:
            return guess or None
        question = "Which column names the organisation of a row (Enter: none, rows are dealt out)"
        return str(click.prompt(question, default=guess, show_default=bool(guess))) or None

    def leaks(self, data: str, values: dict[str, Any]) -> tuple[str, ...]:
        """Find the columns that give the label away; with them there is nothing to learn, so they go by default."""
        from glocalfair.data.frame import FrameOptions, prepare
        from glocalfair.data.frame.leakage import leaks
        from glocalfair.options import from_mapping

        found = tuple(leaks(prepare(self.frame, from_mapping(FrameOptions, {"path": data, **values})).dataset))
        question = f"These columns give the label away: {', '.join(found)}. Leave them out"
        return found if found and (self.yes or click.confirm(question, default=True)) else ()

    def _ask(self, question: str, guess: str, choices: list[str]) -> str:
        if self.yes:
            return guess
        answer = click.prompt(question, default=guess, type=click.Choice(choices), show_choices=len(choices) <= 20)
        return str(answer)

    def _values(self, name: str) -> list[str]:
        from glocalfair.data.frame.options import MISSING_VALUES
        from glocalfair.data.frame.values import text

        if self.frame[name].dtype.is_nested():
            return []
        return sorted(text(self.frame[name], MISSING_VALUES).drop_nulls().unique().to_list())

    def _binned(self, name: str) -> str:
        column = self.frame[name]
        if not column.dtype.is_numeric() or len(self._values(name)) <= 20:
            return name
        middle: Any = column.median()
        return f"{name}:<{middle:.3g}"


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name


def _matches(name: str, words: tuple[str, ...]) -> bool:
    parts = name.lower().replace("-", "_").replace(" ", "_").split("_")
    return any(word in parts for word in words)


def _write(target: Path, data: Path, values: dict[str, Any], method: str) -> None:
    from glocalfair.config import load
    from glocalfair.data.frame import FrameOptions, prepare_file
    from glocalfair.options import from_mapping
    from glocalfair.registry import method as make_method

    # What is written must run: try it on the table first.
    profile = prepare_file(from_mapping(FrameOptions, {"path": str(data), **values})).profile
    make_method(method, {})
    if target.exists():
        raise GlocalfairError(f"'{target}' exists already. Choose another --output.")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(_toml(_relative(data, target), values, method, profile.warnings), encoding="utf-8")
    load(str(target))


def _relative(data: Path, target: Path) -> str:
    folder = target.resolve().parent
    whole = data.resolve()
    return str(whole.relative_to(folder)) if whole.is_relative_to(folder) else str(whole)


def _toml(path: str, values: dict[str, Any], method: str, warnings: tuple[str, ...]) -> str:
    from glocalfair.config import dump

    def line(name: str, value: Any, comment: str) -> str:
        return f"{dump({name: value}).strip()}  # {comment}"

    told = "".join(f"# Look at this: {' '.join(warning.split())}\n" for warning in warnings)
    client = values.get("client")
    partition = (
        'name = "by_column"  # the client column says who holds what\nmin_rows = 1  # the least rows of a client'
        if client
        else 'name = "iid"  # rows dealt like cards; see: glocalfair list partitions\nclients = 4\nmin_rows = 1'
    )
    lines = [
        line("path", path, "CSV or Parquet, relative to this file"),
        line("label", values["label"], "the column to predict"),
        line("positive", values["positive"], "the value of it that counts as positive"),
        line("sensitive", values.get("sensitive", []), 'whom to treat alike; numbers in bins: "age:<40"'),
        *([line("client", client, "which organisation holds a row")] if client else []),
        line("drop", values.get("drop", []), "columns the model must not see"),
        'missing_label = "drop"  # or "error"',
        'missing_sensitive = "group"  # a group of their own; or "drop" or "error"',
    ]
    return (
        f"# Written by 'glocalfair init'. Run it with: glocalfair run THIS_FILE\n{told}\n"
        f'[data]\nname = "frame"\n{chr(10).join(lines)}\n\n'
        f"[partition]\n{partition}\n\n"
        '[model]\nname = "mlp"  # or "linear", or your own as "module:factory"\nhidden = [32, 16]\n\n'
        "[train]\nrounds = 30\nparticipation = 1.0  # share of the organisations that train in a round\n"
        "epochs = 2  # passes over its rows that an organisation makes in a round\nlr = 0.05\nbatch_size = 64\n\n"
        f'[method]\nname = "{method}"  # see: glocalfair list methods\n\n'
        "[run]\nseed = 0\n"
    )
