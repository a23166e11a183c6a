"""``python -m glocalfair``: the command line of whichever environment runs it."""

from glocalfair.cli import main

if __name__ == "__main__":
    main(prog_name="glocalfair")
