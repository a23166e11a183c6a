"""Methods side by side: the runs of a comparison, in parallel and resumable, and what they add up to.

`compare` plans the runs (method × attribute × seed or fold), executes those that are missing, and assembles one frozen
`Comparison`, which the renderers in `glocalfair.report` turn into tables. `tune` chooses settings on validation data.
"""

from glocalfair.compare.comparison import Cell, Comparison, Difference, Figure, Row
from glocalfair.compare.entries import ENTRIES, Entry, choose
from glocalfair.compare.study import compare
from glocalfair.compare.tuned import read_tuned, write_tuned
from glocalfair.compare.tuning import Choice, Trial, tune

__all__ = [
    "ENTRIES",
    "Cell",
    "Choice",
    "Comparison",
    "Difference",
    "Entry",
    "Figure",
    "Row",
    "Trial",
    "choose",
    "compare",
    "read_tuned",
    "tune",
    "write_tuned",
]
