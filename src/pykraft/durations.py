"""Durations in messages and tables: "3 s", "0.25 s", "2,063 ms", "4.2 ms".

Invariant: people see each duration in the same form everywhere; JSON has plain numbers and does not come here. What is
configured or typed in seconds is told in seconds, what is measured in ms is told in ms.
"""

from __future__ import annotations

from typing import Final

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
