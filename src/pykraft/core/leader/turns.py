"""Turns at a pace: so many in so much time, however many want one.

Source: ours (ADR 118).
"""

from __future__ import annotations


class Turns:
    """Lets ``count`` go in ``every_ms``; the time begins with the first of them."""

    def __init__(self, count: int, every_ms: int) -> None:
        self._count = count
        self._every_ms = every_ms
        self._since_ms = 0
        self._taken = 0

    @property
    def next_ms(self) -> int:
        """When the next may go (mono ms); 0, which is past, for now."""
        return self._since_ms + self._every_ms if self._taken >= self._count else 0

    def take(self, wanted: int, now_ms: int) -> int:
        """How many of so many may go now; they count as gone."""
        if now_ms >= self._since_ms + self._every_ms:
            self._since_ms, self._taken = now_ms, 0
        taken = min(wanted, self._count - self._taken)
        self._taken += taken
        return taken
