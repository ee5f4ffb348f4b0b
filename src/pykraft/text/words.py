"""Words and numbers in messages: "1 batch", "2,063 ms", "did you mean DESCRIBE?"; and percentiles.

Invariants: the noun agrees with its count, and people see each duration in the same form everywhere (JSON has plain
numbers and does not come here): what is configured or typed in seconds is shown in seconds, what is measured in ms is
shown in ms. A percentile is one of the values, never between two of them.

Source: the nearest-rank definition.
"""

from collections.abc import Iterable, Mapping, Sequence
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


def percentiles(values: Iterable[tuple[float, int]], shares: Mapping[str, float]) -> dict[str, float]:
    """By name, the smallest value that at least this share of all records do not exceed; 0 without records.

    ``values`` are pairs of a value and the number of records that it stands for.
    """
    ascending = sorted(values)
    total = sum(count for _, count in ascending)
    return {name: _nearest_rank(ascending, total * share) for name, share in shares.items()}


def _nearest_rank(ascending: Sequence[tuple[float, int]], needed: float) -> float:
    seen = 0
    for value, count in ascending:
        seen += count
        if seen >= needed:
            return value
    return 0.0


EXACT_MS_MIN: Final = 100
"""From here on, fractions of a millisecond say nothing."""
MINUTES_S_MIN: Final = 100.0


def in_seconds(duration_ms: float) -> str:
    """A time limit, as a person typed it: ``15 s``, ``1.5 s``."""
    return f"{duration_ms / 1_000:,.3f}".rstrip("0").rstrip(".") + " s"


def about(duration_s: float) -> str:
    """A rough duration for a person who waits: ``about 20 s``, ``about 3 minutes``."""
    return f"about {duration_s:.0f} s" if duration_s < MINUTES_S_MIN else f"about {duration_s / 60:.0f} minutes"


def ms_number(duration_ms: float) -> str:
    """A measured duration without its unit, for a column of ms: ``2,063``, ``4.2``."""
    is_whole = isinstance(duration_ms, int) or round(duration_ms, 1) >= EXACT_MS_MIN
    return f"{duration_ms:,.{0 if is_whole else 1}f}"


def in_ms(duration_ms: float) -> str:
    """A measured duration: ``2,063 ms``, ``4.2 ms``."""
    return f"{ms_number(duration_ms)} ms"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """The count and its noun; ``plural`` by default is the noun with an s, or with es after ch."""
    many = plural or (f"{noun}es" if noun.endswith("ch") else f"{noun}s")
    return f"{count:,} {noun if count == 1 else many}"
