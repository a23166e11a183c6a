"""The paper's tables and figures: its experiments run again, its own figures beside ours.

`spec` reads the tables from the TOML files in ``glocalfair/experiments/paper``, `runs` makes the runs, `sheet` puts a
table together, `write` and `render` give it its forms, `figures` draws.
"""

from glocalfair.reproduce.sheet import Sheet
from glocalfair.reproduce.spec import DATA, TABLES, Table, read_source, read_table
from glocalfair.reproduce.study import reproduce

__all__ = ["DATA", "TABLES", "Sheet", "Table", "read_source", "read_table", "reproduce"]
