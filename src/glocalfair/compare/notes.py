"""What a reader of a comparison must know, in sentences."""

from __future__ import annotations

from glocalfair.compare.comparison import Comparison


def notes(comparison: Comparison) -> tuple[str, ...]:
    """Give the notes that apply, one sentence or two each."""
    number, kind = len(comparison.repeats), comparison.kind
    found = []
    if number == 1:
        found.append("One seed only: there is no ± and no interval. Use more to tell methods from luck.")
    elif kind == "fold":
        found.append(
            f"Global figures are from the counts of {number} test folds added up; local figures are means over the "
            "folds. ± is the standard deviation (n − 1) over the folds."
        )
    else:
        found.append(f"Figures are mean ± standard deviation (n − 1) over {number} seeds.")
    found += _runs(comparison)
    found.append("*: best of the column, or equal to the best in three decimals.")
    if collapsed := [row for row in comparison.rows if row.collapsed]:
        told = ", ".join(f"{row.label} in {row.collapsed} of {len(row.runs)} runs" for row in collapsed)
        found.append(
            f"†: collapsed ({told}). Such a model gives (almost) everybody the same answer, so it has no gaps without "
            "being fair; it is never marked as best."
        )
    if diverged := [row for row in comparison.rows if row.diverged]:
        told = ", ".join(f"{row.label} in {row.diverged} of {len(row.runs)} runs" for row in diverged)
        found.append(f"Training diverged ({told}): these figures are of the last good model, and never the best.")
    found.append(
        "Excess: what is left of a gap above the noise floor, the gap that a perfectly fair model would show on so few "
        "rows. At or below 0 it is what chance explains."
    )
    cells = [cell for row in comparison.rows for cell in row.cells.values()]
    if any(cell.defined < cell.possible for cell in cells):
        found.append(
            f"(d/n): defined on d of n, counted over clients (local) and {kind}s; the mean is over those. A client has "
            "a gap if it holds two groups, and an EOD if both have positives and negatives."
        )
    found.append("Discloses: what leaves a client beside the model and the number of examples.")
    return tuple(found)


def _runs(comparison: Comparison) -> list[str]:
    """Say whose figures come from more than one run, or from other models."""
    found = []
    if split := [row.label for row in comparison.rows if row.split]:
        verb = "protects" if len(split) == 1 else "protect"
        found.append(
            f"{', '.join(split)} {verb} one attribute at a time and ran once for each: the EOD of an attribute is from "
            "the run that protects it, everything else is the mean over these runs, so no single model has these "
            "figures."
        )
    if personal := [row.label for row in comparison.rows if row.personal]:
        found.append(
            f"Local figures of {', '.join(personal)} belong to personal models, global ones to the shared model."
        )
    if len(lengths := {row.averaged for row in comparison.rows}) > 1:
        told = ", ".join(f"{row.label} of the last {row.averaged}" for row in comparison.rows if row.averaged > 1)
        found.append(
            f"The final model is the mean of several global models for some methods ({told}), the last one for the "
            f"others; --set train.average_last={max(lengths)} averages for all, =1 for none."
        )
    return found
