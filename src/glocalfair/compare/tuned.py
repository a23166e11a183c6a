"""The file that `tune` writes and ``compare --tuned`` reads: ``[methods.NAME]`` with the chosen settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from glocalfair import config as configuration
from glocalfair.compare.tuning import Choice, Trial, describe
from glocalfair.errors import GlocalfairError, unknown
from glocalfair.registry import methods


def read_tuned(path: Path) -> dict[str, dict[str, Any]]:
    """Read the settings by name; a section may name its ``method`` and so be a variant under a name of its own."""
    content = configuration.read(str(path))
    for section in content:
        if section != "methods":
            raise unknown(f"section of '{path}'", section, ["methods"])
    sections = content.get("methods", {})
    if not isinstance(sections, Mapping) or not all(isinstance(s, Mapping) for s in sections.values()):
        raise GlocalfairError(f"'{path}' must hold sections [methods.NAME] with the settings of each method.")
    for label, values in sections.items():
        name = values.get("method", label)
        if ":" not in name and name not in methods():
            raise unknown(f"method in '{path}'", name, methods())
    return {label: dict(values) for label, values in sections.items()}


def write_tuned(
    choices: Sequence[Choice],
    reference: Trial,
    budget: float,
    heading: Sequence[str] = (),
    fixed: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """Write the choices as TOML, below a comment with everything that was tried."""
    attributes = list(reference.eod)
    rows = [["method", "settings", "accuracy", "positives", *(f"EOD {name}" for name in attributes), "mean EOD", ""]]
    rows.append(["fedavg", "(reference)", *_figures(reference, attributes), ""])
    for choice in choices:
        for trial in choice.trials:
            mark = "" if trial is not choice.chosen else "chosen" if choice.within else "chosen, outside the budget"
            rows.append([choice.method, describe(trial.settings), *_figures(trial, attributes), mark])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    rule = (
        f"Rule: the smallest mean EOD among the settings whose accuracy is at most {budget:g} below FedAvg's, all on "
        "validation rows."
    )
    comment = [*heading, rule, "", *table]
    lines = [f"# {line}".rstrip() for text in comment for line in text.split("\n")]
    settings = {c.method: {**(fixed or {}).get(c.method, {}), **c.chosen.settings} for c in choices}
    return "\n".join(lines) + "\n\n" + configuration.dump({"methods": settings})


def _figures(trial: Trial, attributes: Sequence[str]) -> list[str]:
    values = [trial.accuracy, trial.positive_rate, *(trial.eod[name] for name in attributes), trial.mean_eod]
    return [f"{value:.4f}" for value in values]
