"""``glocalfair flower``: across real organisations, with Flower."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from glocalfair.cli.flower_certs import certs
from glocalfair.cli.group import Group
from glocalfair.cli.words import WordsCommand, WordsOption
from glocalfair.errors import GlocalfairError

FILE = click.Path(path_type=Path)


@click.group("flower", cls=Group, short_help="Across real organisations: schema, app, certificates.")
def flower_command() -> None:
    """Train across real organisations, with Flower. Needs the extra: pip install 'glocalfair[flower]'.

    \b
    Examples:
      glocalfair flower schema north.csv --label readmitted --sensitive sex race -o schema.json
      glocalfair flower check south.csv --schema schema.json
      glocalfair flower init hospitals --schema schema.json --data 'data/*.csv'
    """


@flower_command.command("schema", cls=WordsCommand, short_help="Make the published schema from one table.")
@click.argument("data", type=FILE)
@click.option("--label", required=True, metavar="COLUMN", help="The column to predict; it has two values.")
@click.option("--positive", metavar="VALUE", help="Which of them is positive, if it is not obvious.")
@click.option("--sensitive", cls=WordsOption, metavar="COLUMN …", help="Sensitive columns; a number in bins: age:<40.")
@click.option("--client", metavar="COLUMN", help="A column that names the organisation; it gets no part of the schema.")
@click.option("--drop", cls=WordsOption, metavar="COLUMN …", help="Columns the model must not see.")
@click.option("--keep", cls=WordsOption, metavar="COLUMN …", help="Columns to use whatever they look like.")
@click.option(
    "--side", type=click.IntRange(1), default=128, show_default=True, metavar="N", help="Pictures: N × N pixels."
)
@click.option(
    "--file", "file_column", default="file", show_default=True, metavar="COLUMN", help="Pictures: their path."
)
@click.option("--unit", metavar="COLUMN", help="Pictures: whose it is, so that people are not torn apart.")
@click.option("-o", "--output", type=FILE, default=Path("schema.json"), show_default=True, metavar="FILE")
def schema_command(data: Path, output: Path, side: int, file_column: str, unit: str | None, **options: Any) -> None:
    """Make the schema that every site's table must fit: columns, categories, ranges.

    DATA is one site's table, or any public one with the same columns; or a folder of pictures with a table labels.csv
    in it (a row for each: file, label, sensitive columns). What it discloses of that table: names of columns
    and categories, rounded ranges, means and standard deviations. Look through it before you publish it, and add
    categories that other sites may have.

    \b
    Examples:
      glocalfair flower schema north.csv --label readmitted --sensitive sex race -o schema.json
      glocalfair flower schema pictures/north --label smiling --sensitive gender --side 64
    """
    from glocalfair.data.frame.options import FrameOptions
    from glocalfair.flower.schema import PublicSchema
    from glocalfair.options import from_mapping
    from glocalfair.runs import write_atomically

    values = {name: list(v) if isinstance(v, tuple) else v for name, v in options.items() if v}
    told = from_mapping(FrameOptions, {"path": str(data), **values})
    if data.is_dir():
        from glocalfair.flower.pictures import schema_of

        schema, warnings = schema_of(data, side, told, file_column, unit)
        what = f"Pictures of {side} × {side} pixels"
    else:
        schema, warnings = PublicSchema.of_table(told)
        what = f"{len(schema.frame.numeric)} numeric and {len(schema.frame.categorical)} categorical columns"
    for line in warnings:
        click.echo(f"Warning: {line}", err=True)
    write_atomically(output, (json.dumps(schema.to_dict(), ensure_ascii=False, indent=1) + "\n").encode())
    click.echo(f"{what}: {output}")


@flower_command.command("sample", cls=WordsCommand, short_help="Write tables to try it out with.")
@click.argument("folder", type=FILE)
@click.option("--sites", cls=WordsOption, required=True, metavar="NAME …", help="A table for each of these sites.")
@click.option("--rows", type=click.IntRange(100, 48842), default=6000, show_default=True, metavar="N", help="In all.")
@click.option("--faces", is_flag=True, help="Folders of made-up faces instead of tables.")
def sample_command(folder: Path, sites: tuple[str, ...], rows: int, faces: bool) -> None:
    """Write a CSV file of census data (Adult) for each site, to try a deployment on one machine.

    \b
    Examples:
      glocalfair flower sample data --sites north south east
      glocalfair flower sample pictures --sites north south east --faces
    """
    from glocalfair.flower.sample import write_faces, write_sample

    for path in (write_faces if faces else write_sample)(folder, sites, rows):
        click.echo(f"Wrote {path}")


@flower_command.command("check", short_help="Does my table fit the published schema?")
@click.argument("data", type=FILE)
@click.option("--schema", required=True, type=FILE, metavar="FILE", help="The published schema.")
def check_command(data: Path, schema: Path) -> None:
    """Check a site's own table or folder of pictures against the published schema. Nothing leaves this machine.

    \b
    Examples:
      glocalfair flower check south.csv --schema schema.json
    """
    from glocalfair.flower.schema import PublicSchema
    from glocalfair.flower.table import fit

    dataset, lines = fit(PublicSchema.load(schema), data)
    for line in lines:
        click.echo(f"Does not fit: {line}")
    click.echo(f"{len(dataset):,} rows can be used{'' if lines else '; everything fits'}.")


@flower_command.command("init", cls=WordsCommand, short_help="Write a Flower app for your own data and model.")
@click.argument("folder", type=FILE)
@click.option("--schema", required=True, type=FILE, metavar="FILE", help="The published schema.")
@click.option(
    "--method", default="glocalfair", show_default=True, metavar="NAME", help="See 'glocalfair list methods'."
)
@click.option("--sites", cls=WordsOption, metavar="NAME …", help="The sites that are expected; else whoever connects.")
@click.option("--data", type=FILE, metavar="'DIR/*.csv'", help="A table for each site, to try it out on this machine.")
@click.option("--rounds", type=click.IntRange(1), default=30, show_default=True, metavar="R", help="Number of rounds.")
@click.option("--own-model", is_flag=True, help="With a file model.py for a model of your own.")
def init_command(
    folder: Path,
    schema: Path,
    method: str,
    sites: tuple[str, ...],
    data: Path | None,
    rounds: int,
    own_model: bool,
) -> None:
    """Write a small, complete Flower app: 'flwr run' starts it unchanged in a simulation and on a deployment.

    \b
    Examples:
      glocalfair flower init hospitals --schema schema.json --data 'data/*.csv'
      glocalfair flower init hospitals --schema schema.json --sites north south east --method fedavg
    """
    from glocalfair.flower import require_flower
    from glocalfair.flower.scaffold import write_app

    require_flower()
    if data is not None:
        found = sorted(data.parent.glob(data.name))
        if not found:
            raise GlocalfairError(f"'--data' must name at least one file. Got '{data}' instead.")
        if sites and {path.stem for path in found} != set(sites):
            names = ", ".join(path.stem for path in found)
            raise GlocalfairError(f"'--sites' must be the names of the files of '--data'. They are: {names}.")
    name = write_app(folder, schema, method, data, sites, rounds, own_model)
    click.echo(f"Wrote {folder}. Look at {folder / name / 'federation.toml'}, then: flwr run {folder}")


@flower_command.command("evaluate", short_help="How would the current model do on my rows?")
@click.argument("bundle", type=FILE)
@click.argument("data", type=FILE)
@click.option("--seed", type=int, default=0, metavar="N", help="Of intervals and noise floors.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object and nothing else.")
def evaluate_command(bundle: Path, data: Path, seed: int, as_json: bool) -> None:
    """Measure a federation's model on your own table before you join. Nothing leaves this machine.

    BUNDLE is the file model.glocalfair of a run, or its directory; DATA a table with label and sensitive columns.
    For pictures: its model.safetensors, and a folder with labels.csv.

    \b
    Examples:
      glocalfair flower evaluate model.glocalfair west.csv
    """
    from glocalfair.flower.evaluate import evaluate
    from glocalfair.runs import jsonable

    result, lines = evaluate(bundle, data, seed)
    for line in lines:
        click.echo(f"Warning: {line}", err=True)
    if as_json:
        click.echo(json.dumps(jsonable(result), allow_nan=False))
        return
    from glocalfair.report.console import console
    from glocalfair.report.result import global_table, worst_pairs

    out = console()
    _, *table = global_table(result).renderables
    out.print(f"{result['examples']:,} rows of your own")
    for part in (*table, *worst_pairs(result)):
        out.print(part)


flower_command.add_command(certs)
