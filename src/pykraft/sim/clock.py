"""Virtual time: a queue of things to do, in order of time and then of when they were planned.

Nothing happens between two entries, so a run is exactly the order in which entries are taken. Times are in
microseconds, since a network hop takes less than one of the host's milliseconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from pykraft.types import Instant

WALL_START_MS = 1_700_000_000_000


class Clock:
    """The one clock of a world and its agenda."""

    def __init__(self) -> None:
        self.now_us = 0
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._planned = 0

    @property
    def instant(self) -> Instant:
        """The time as a host sees it."""
        now_ms = self.now_us // 1_000
        return Instant(mono_ms=now_ms, wall_ms=WALL_START_MS + now_ms)

    def after(self, delay_us: int, act: Callable[[], None]) -> None:
        """Do this later; at the same time as others, in the order of planning."""
        assert delay_us >= 0
        self._planned += 1
        heapq.heappush(self._agenda, (self.now_us + delay_us, self._planned, act))

    def advance(self) -> bool:
        """Do the next thing; False when there is nothing left to do."""
        if not self._agenda:
            return False
        self.now_us, _, act = heapq.heappop(self._agenda)
        act()
        return True
