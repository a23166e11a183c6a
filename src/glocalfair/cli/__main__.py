"""``python -m glocalfair.cli``: the same as ``glocalfair``."""

from glocalfair.cli import main

main(prog_name="glocalfair")
