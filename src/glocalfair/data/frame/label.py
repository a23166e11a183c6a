"""The label: two values of any spelling, one of them positive."""

from __future__ import annotations

from collections.abc import Sequence

from glocalfair.errors import GlocalfairError, unknown

_YES = {"1", "yes", "y", "true", "t", "positive", "pos", "+", "+1", "approved", "accepted", "pass", "passed", "success"}
_NO = {"0", "no", "n", "false", "f", "negative", "neg", "-", "-1", "denied", "rejected", "fail", "failed", "failure"}


def plain(value: object) -> str:
    """Write a value as `text` writes it in a column.

    >>> plain(True), plain(1.0), plain(" yes ")
    ('true', '1', 'yes')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def classes(column: str, values: Sequence[str], positive: object = None) -> tuple[str, str]:
    """Return the negative and the positive value.

    Parameters
    ----------
    column
        For messages.
    values
        The distinct values of the label.
    positive
        The positive one as the user names it; None: find out.

    Examples
    --------
    >>> classes("approved", ["Yes", "No"])
    ('No', 'Yes')
    >>> classes("income", ["<=50K", ">50K"])
    ('<=50K', '>50K')
    >>> classes("risk", ["high", "low"])
    Traceback (most recent call last):
    glocalfair.errors.GlocalfairError: Which value of the label 'risk' is positive? It has 'high' and 'low'. ...
    """
    found = sorted(values)
    if len(found) > 2:
        shown = ", ".join(f"'{value}'" for value in found[:6]) + (", …" if len(found) > 6 else "")
        raise GlocalfairError(
            f"Binary classification only for now: the label '{column}' has {len(found):,} values ({shown}). "
            "Make a column of it that has two."
        )
    if len(found) < 2:
        only = f"one value only, '{found[0]}'" if found else "no values"
        raise GlocalfairError(f"The label '{column}' has {only}: there is nothing to learn.")
    chosen = _guess(found) if positive is None else _match(found, plain(positive), column)
    if chosen is None:
        raise GlocalfairError(
            f"Which value of the label '{column}' is positive? It has '{found[0]}' and '{found[1]}'. "
            f"Name it, for instance --positive {found[0]}."
        )
    return (found[1] if chosen == found[0] else found[0]), chosen


def _match(found: list[str], wanted: str, column: str) -> str:
    for value in found:
        if value == wanted:
            return value
    same = [value for value in found if value.lower() == wanted.lower()]
    if len(same) != 1:
        raise unknown(f"value of the label '{column}'", wanted, found)
    return same[0]


def _guess(found: list[str]) -> str | None:
    for value, other in (found, found[::-1]):
        if value.lower() in _YES and other.lower() in _NO:
            return value
        if value.startswith(">") and other.startswith("<"):
            return value
    return None
