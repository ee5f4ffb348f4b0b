"""Lines about connections, at a bounded rate: whoever floods a node with bad connections must not fill its disk.

Owns the count of what was left out. Invariant: of any time so many lines and no more are written, and what was left out
is told with the next line that is written. Lines about anything else pass.

Source: Linux's ``printk_ratelimit`` (a burst, then a rate, and how many were suppressed).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pykraft.host.ports import ABOUT_CONNECTIONS

BURST_MAX: Final = 50
"""Lines about connections that may come at once."""
LINES_PER_S: Final = 5.0


class BoundedReports:
    """Passes lines on to ``write``; times are loop times in seconds."""

    def __init__(self, write: Callable[[str], None], now_s: float) -> None:
        self._write = write
        self._tokens = float(BURST_MAX)
        self._filled_s = now_s
        self._left_out = 0

    def tell(self, text: str, now_s: float) -> None:
        """Write this line, unless it is one too many about connections."""
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
        self._write(f"{text} ({left_out} lines about connections were left out before this one)" if left_out else text)
