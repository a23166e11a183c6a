"""The words of the verdict: groups and labels as people call them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_GROUPS = {
    "Female": "women",
    "Male": "men",
    "White": "white people",
    "Non-White": "non-white people",
    "Black": "Black people",
}
_POSITIVES = {"adult": "high earners", "celeba": "smiling", "utkface": "people of 40 or older"}


@dataclass(frozen=True)
class Words:
    """How to speak of a data set."""

    positives: str
    """What a positive is taken for: "high earners"."""

    def recognised(self) -> str:
        """Say what a true positive is."""
        return f"recognised as {self.positives}"

    def mistaken(self) -> str:
        """Say what a false positive is."""
        return f"wrongly taken for {self.positives}"


def words_for(data: Mapping[str, Any]) -> Words:
    """Find the words of a data set; a table of the user's own has its label, other data have plain positives.

    >>> words_for({"name": "frame", "label": "approved", "positive": "yes"}).recognised()
    'recognised as ‘approved: yes’'
    >>> words_for({"name": "adult"}).recognised(), words_for({"name": "mine"}).recognised()
    ('recognised as high earners', 'recognised as positive')
    """
    if data.get("label"):
        value = data.get("positive")
        return Words(f"‘{data['label']}’" if value is None else f"‘{data['label']}: {value}’")
    return Words(_POSITIVES.get(str(data.get("name", "")), "positive"))


def people(value: str) -> str:
    """Write a group's value for a sentence.

    >>> people("Female"), people("a0"), people("Female×Non-White")
    ('women', 'the group ‘a0’', 'the group ‘Female×Non-White’')
    """
    return _GROUPS.get(value, f"the group ‘{value}’")


def verb(value: str) -> str:
    """Return "are" for people and "is" for a group."""
    return "are" if value in _GROUPS else "is"


def points(value: float, beside: Sequence[float] = ()) -> str:
    """Write a difference of shares in points: whole ones, unless a figure beside it would look the same.

    >>> points(0.064), points(0.012), points(0.004), points(0.114, [0.108]), points(0.114, [0.06])
    ('6', '1', '0.4', '11.4', '11')
    """
    scaled = 100 * abs(value)
    equal = any(round(scaled) == round(100 * abs(other)) for other in beside)
    return f"{scaled:.1f}" if equal or scaled < 0.95 else f"{scaled:.0f}"


def noun(text: str) -> str:
    """Put "point" or "points" behind a number.

    >>> noun("1"), noun("6")
    ('1 point', '6 points')
    """
    return f"{text} point" if text == "1" else f"{text} points"


def sentence(text: str) -> str:
    """Begin with a capital letter and end with a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
