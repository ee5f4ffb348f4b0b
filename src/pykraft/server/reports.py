"""Limits the rate of report lines about connections, so that a flood of bad connections cannot fill the disk.

Invariant: lines about connections never exceed the burst and the rate, and the next written line says how many were
left out. Lines about anything else always pass.

Source: Linux's ``printk_ratelimit`` (a burst, then a rate, and how many were suppressed).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pykraft.host.ports import ABOUT_CONNECTIONS
from pykraft.plural import counted

BURST_MAX: Final = 50
"""Lines about connections that may be written at once."""
LINES_PER_S: Final = 5.0


class BoundedReports:
    """Passes lines on to ``write``; times are loop times in seconds."""

    def __init__(self, write: Callable[[str], None], now_s: float) -> None:
        self._write = write
        self._tokens = float(BURST_MAX)
        self._filled_s = now_s
        self._left_out = 0

    def tell(self, text: str, now_s: float) -> None:
        """Write this line, unless it is about connections and above the rate."""
        # Only peers can cause lines about connections at any rate; other lines are always written.
        if not text.startswith(ABOUT_CONNECTIONS):
            self._write(text)
            return
        self._tokens = min(BURST_MAX, self._tokens + (now_s - self._filled_s) * LINES_PER_S)
        self._filled_s = now_s
        if self._tokens < 1:
            self._left_out += 1
            return
        self._tokens -= 1
        left_out, self._left_out = self._left_out, 0
        if left_out:
            text += f" (left out before this: {counted(left_out, 'line')} about connections)"
        self._write(text)
