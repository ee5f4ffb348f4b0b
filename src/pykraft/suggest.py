"""Finds the known name that a misspelled one probably means, for messages.

Invariant: it suggests only names of the caller's list, and none that is not similar.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

SIMILARITY_MIN: Final = 0.7
"""How similar a name must be to be suggested (1: equal)."""


def closest(word: str, names: Iterable[str], *, similarity_min: float = SIMILARITY_MIN) -> str | None:
    """The most similar of these names; None if none is similar."""
    from difflib import get_close_matches  # only a wrong word needs it

    found = get_close_matches(word, list(names), n=1, cutoff=similarity_min)
    return found[0] if found else None


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """``; did you mean NAME?`` to put at the end of a message, or nothing."""
    name = closest(word, names)
    return "" if name is None else f"; did you mean {name}?"
