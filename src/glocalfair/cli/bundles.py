"""``glocalfair predict``, ``export`` and ``card``: what to do with a trained model."""

from __future__ import annotations

from pathlib import Path

import click

from glocalfair.errors import GlocalfairError

_TRUST = "Import the model's own code, which the bundle only names. For bundles you trust."


@click.command("predict", short_help="Predict the rows of a table with a trained model.")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="CSV or Parquet; else to stdout.")
@click.option(
    "--threshold", type=float, default=0.5, show_default=True, metavar="T", help="From where on it is positive."
)
@click.option("--allow-import", is_flag=True, help=_TRUST)
def predict_command(bundle: Path, data: Path, output: Path | None, threshold: float, allow_import: bool) -> None:
    """Predict the rows of a table with a trained model.

    BUNDLE is the file model.glocalfair of a run, or its run directory; DATA a CSV or Parquet file with the columns that
    the model was trained with. The columns 'probability' and 'prediction' are added. What does not fit the model is
    told on standard error.

    \b
    Examples:
      glocalfair predict runs/people-glocalfair-seed0 new.csv -o out.csv
      glocalfair predict model.glocalfair new.parquet --threshold 0.3 -o out.parquet
    """
    from glocalfair.bundle import Bundle
    from glocalfair.cli.own_data import find_own_code
    from glocalfair.data.frame.reading import read

    if not 0 <= threshold <= 1:
        raise GlocalfairError(f"'--threshold' must be between 0 and 1. Got {threshold} instead.")
    if output is not None and output.suffix.lower() not in (".csv", ".parquet"):
        raise GlocalfairError(f"'--output' must be a .csv or .parquet file. Got '{output}' instead.")
    found = Bundle.load(bundle)
    frame = read(data, missing_values=found.schema.missing_values)
    for name in ("probability", "prediction"):
        if name in frame.columns:
            raise GlocalfairError(f"'{data}' has a column '{name}' already. Rename it.")
    if allow_import:
        find_own_code()
    probability, misfit = found.predict(frame, allow_import=allow_import)
    for line in misfit.lines():
        click.echo(f"Warning: {line}", err=True)
    import numpy as np

    labels = np.where(probability >= threshold, found.schema.positive, found.schema.negative)
    frame = frame.with_columns(probability=probability.round(6), prediction=labels)
    if output is None:
        click.echo(frame.write_csv(), nl=False)
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    if output.suffix.lower() == ".csv":
        frame.write_csv(output)
    else:
        frame.write_parquet(output)
    click.echo(f"{frame.height:,} rows, {int((probability >= threshold).sum()):,} of them positive: {output}", err=True)


@click.command("export", short_help="Write a trained model in another format.")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--onnx", required=True, type=click.Path(path_type=Path), metavar="FILE", help="Where the ONNX model goes."
)
def export_command(bundle: Path, onnx: Path) -> None:
    """Write a trained model, with its preprocessing, as ONNX. Needs the extra: pip install 'glocalfair[onnx]'.

    \b
    Examples:
      glocalfair export runs/people-glocalfair-seed0 --onnx model.onnx
      glocalfair export model.glocalfair --onnx model.onnx
    """
    from glocalfair.bundle import Bundle
    from glocalfair.onnx_export import export

    export(Bundle.load(bundle), onnx)
    click.echo(f"Wrote {onnx}")


@click.command("card", short_help="Write the model card of a run.")
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Where it goes; else to stdout.")
def card_command(run_dir: Path, output: Path | None) -> None:
    """Write the model card of a finished run: data, method, constraints, what was reached, limits.

    \b
    Examples:
      glocalfair card runs/people-glocalfair-seed0
      glocalfair card runs/people-glocalfair-seed0 -o CARD.md
    """
    from glocalfair.card import card

    text = card(run_dir)
    if output is None:
        click.echo(text, nl=False)
        return
    from glocalfair.runs import write_atomically

    write_atomically(output, text.encode())
    click.echo(f"Wrote {output}")
