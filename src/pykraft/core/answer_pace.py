"""How long an answer that moves bit by bit is waited for, by who receives it and by who sends it.

Time is cut into windows of one timeout. A window is extended by another one when enough of the answer has moved in it:
at least the share that brings the whole answer across in `WINDOWS_MAX` windows, and at least a floor, so that a few
bytes a second keep nobody waiting. After `WINDOWS_MAX` windows nothing is extended any more. So a slow link is not
taken for a dead leader, and a leader that trickles or freezes is given up after one timeout.

Source: ours (ADR 036); Kafka's clients count only whole answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WINDOWS_MAX: Final = 30
"""Timeouts that one answer may take at most."""
FLOOR_SHARE: Final = 64
"""This part of a full Fetch answer must move in each window, however small the answer is."""


@dataclass(slots=True, kw_only=True)
class AnswerPace:
    """One answer; sizes in bytes, times in mono ms."""

    begun_ms: int
    window_ms: int
    floor_bytes: int
    moved_bytes: int = 0
    """What had moved when the present window began."""

    def advance(self, moved_bytes: int, size_bytes: int, now_ms: int) -> bool:
        """True when enough moved since the window began, and another window begins now."""
        if now_ms - self.begun_ms >= WINDOWS_MAX * self.window_ms:
            return False
        wanted_bytes = max(self.floor_bytes, -(-size_bytes // WINDOWS_MAX))
        if moved_bytes - self.moved_bytes < wanted_bytes:
            return False
        self.moved_bytes = moved_bytes
        return True


def floor_bytes(fetch_size_bytes_max: int) -> int:
    """What must move in each window at least, where a Fetch answer brings so much."""
    return max(1, fetch_size_bytes_max // FLOOR_SHARE)
