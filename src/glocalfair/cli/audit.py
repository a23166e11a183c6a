"""``glocalfair audit``: how fair any model's predictions are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from glocalfair.cli.words import WordsCommand, WordsOption

if TYPE_CHECKING:
    from glocalfair.audit import Audit

_ROWS = 20


@click.command("audit", cls=WordsCommand, short_help="Measure how fair any model's predictions are.")
@click.argument("predictions", type=click.Path(path_type=Path))
@click.option("--label", required=True, metavar="COLUMN", help="The true label; it has two values.")
@click.option("--prediction", required=True, metavar="COLUMN", help="The prediction: a label, or a score.")
@click.option("--sensitive", cls=WordsOption, metavar="COLUMN …", help="Sensitive columns, such as sex age:<40.")
@click.option("--client", metavar="COLUMN", help="The column that names the organisation of a row.")
@click.option("--positive", metavar="VALUE", help="The positive label, if it is not obvious.")
@click.option("--threshold", type=float, metavar="T", help="A score at or above it is positive; 0.5 if not given.")
@click.option("--seed", type=int, default=0, metavar="N", help="Of intervals and noise floors.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object and nothing else.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Also write the report as a page.")
def audit_command(predictions: Path, as_json: bool, html: Path | None, **options: Any) -> None:
    """Measure how fair any model's predictions are, over everybody and inside each organisation. Nothing is trained.

    PREDICTIONS is a CSV or Parquet file with a row for each person.

    \b
    Examples:
      glocalfair audit predictions.csv --label y --prediction p --sensitive sex race --client site
      glocalfair audit predictions.csv --label y --prediction score --sensitive age:<40 --threshold 0.3 --json
    """
    from glocalfair.audit import audit

    report = audit(predictions, **options)
    if html is not None:
        from glocalfair.audit_page import page
        from glocalfair.runs import write_atomically

        write_atomically(html, page(report, f"Fairness of {predictions.name}").encode())
    if as_json:
        from glocalfair.runs import jsonable

        click.echo(json.dumps(jsonable(report.to_dict()), allow_nan=False))
        return
    _show(report)
    if html is not None:
        click.echo(f"Page: {html}")


def _show(report: Audit) -> None:
    from rich.console import Group
    from rich.text import Text

    from glocalfair.audit_page import cell
    from glocalfair.report.console import console
    from glocalfair.report.result import global_table, local_table
    from glocalfair.report.tables import plain_table, titled
    from glocalfair.report.text import plural

    out = console()
    for line in report.warnings:
        out.print(f"Warning: {line}")
    overall = report.result["global"]
    rule = f", a score of {report.threshold:g} or more" if report.threshold is not None else ""
    out.print(f"{plural(overall['examples'], 'row')}; positive is '{report.positive}'{rule}\n")

    def under(title: str, group: Group) -> Group:
        # The tables of a run speak of test rows; here they are whatever rows the file has.
        return Group(Text(title, style="bold"), *group.renderables[1:])

    out.print(under("Global: all rows together", global_table(overall)))
    out.print()
    if len(report.clients) > 1:
        clients = plural(len(report.clients), "client")
        out.print(under(f"Local: {clients}, each on its own rows", local_table(report.result["local"])))
        out.print()
    for sheet in report.sheets():
        table = plain_table(*sheet.header)
        for row in sheet.rows[:_ROWS]:
            table.add_row(*map(cell, row))
        out.print(titled(sheet.title, table, len(sheet.rows) - _ROWS))
        out.print()
    out.print(Text("What is worst", style="bold"))
    for line in report.sentences():
        out.print(line)
