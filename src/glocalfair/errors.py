"""What a user can get wrong: each error names the parameter, the rule, the value and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class GlocalfairError(ValueError):
    """A mistake in what the user gave us. The message is one line and fit to be shown as it is."""

    def __init__(self, message: str) -> None:
        # Messages quote what came from outside, and that may hold line breaks.
        super().__init__("\\n".join(message.splitlines()))


def invalid(parameter: str, rule: str, value: object, advice: str = "") -> GlocalfairError:
    """Build the error for one bad value.

    >>> raise invalid("rounds", "a whole number of at least 1", 0)
    Traceback (most recent call last):
    glocalfair.errors.GlocalfairError: 'rounds' must be a whole number of at least 1. Got 0 instead.
    """
    text = f"'{parameter}' must be {rule}. Got {value!r} instead."
    return GlocalfairError(f"{text} {advice}".rstrip())


def unknown(kind: str, name: object, known: Iterable[str]) -> GlocalfairError:
    """Build the error for a name that does not exist, with the nearest one that does.

    >>> raise unknown("method", "fedavgg", ["fedavg", "fedprox"])
    Traceback (most recent call last):
    glocalfair.errors.GlocalfairError: Unknown method 'fedavgg'. Did you mean 'fedavg'? Known: fedavg, fedprox.
    """
    options = sorted(known)
    near = difflib.get_close_matches(str(name).lower(), options, n=1, cutoff=0.5)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return GlocalfairError(f"Unknown {kind} '{name}'.{hint} Known: {', '.join(options) or 'none'}.")
