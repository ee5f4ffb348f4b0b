"""Decides which report lines of a node are logged, and when: floods, repetitions, and states that end by themselves.

Invariant: an alarm, and the first line of its kind, is always logged. Three rules leave lines out:

1. Lines about connections never exceed a burst and a rate, since anyone who can connect may cause them; the next
   logged line says how many were left out.
2. A line that was reported less than REPEATED_S ago is logged at DEBUG only: a voter that has lost its majority
   changes between the same two states every few seconds.
3. A line that the directory is unproven is logged when that has lasted for a while: at a normal first start of a
   quorum it is over within moments. Then it is logged as it was reported, as an alarm if it is one.

Source: Linux's ``printk_ratelimit`` (a burst, then a rate, and how many were suppressed); ours (ADR 056).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from pykraft.text.words import counted
from pykraft.types import ReportKind

BURST_MAX: Final = 50
"""Lines about connections that may be written at once."""
LINES_PER_S: Final = 5.0
REPEATED_S: Final = 60.0
REMEMBERED_MAX: Final = 100
"""Different lines whose last report is remembered; beyond that, the oldest is forgotten."""


class Reports:
    """Passes lines on to ``log``, with a level of `logging`; times are loop times in seconds."""

    def __init__(self, log: Callable[[int, str], None], now_s: float, *, unproven_s: float) -> None:
        """``unproven_s``: how long the directory must be unproven before that is logged."""
        self._log = log
        self._unproven_s = unproven_s
        self._tokens = float(BURST_MAX)
        self._filled_s = now_s
        self._left_out = 0
        self._told_s: dict[str, float] = {}
        self._unproven: tuple[str, int] | None = None
        """The newest line that waits by rule 3, and its level."""
        self._unproven_since_s: float | None = None

    def tell(self, text: str, now_s: float, *, is_alarm: bool = False, kind: ReportKind = ReportKind.EVENT) -> None:
        """Log this line, now or later, or leave it out."""
        level = logging.ERROR if is_alarm else logging.INFO
        # Rule 3: `look` logs it.
        if kind is ReportKind.UNPROVEN:
            self._unproven = text, level
            if self._unproven_since_s is None:
                self._unproven_since_s = now_s
        elif is_alarm:
            self._log(level, text)
        elif kind is ReportKind.CONNECTION:
            self._tell_of_connection(text, now_s)
        else:
            # Rule 2.
            self._log(logging.DEBUG if self._is_repeated(text, now_s) else level, text)

    def look(self, now_s: float, *, is_proven: bool) -> None:
        """Log what has waited for long enough; call it a few times a second."""
        if is_proven:
            self._unproven = self._unproven_since_s = None
        elif self._unproven is not None and self._unproven_since_s is not None:
            (text, level), waited_s = self._unproven, now_s - self._unproven_since_s
            if waited_s >= self._unproven_s:
                self._unproven = None
                self._log(level, text)

    def _tell_of_connection(self, text: str, now_s: float) -> None:
        # Rule 1: only peers can cause lines about connections at any rate.
        self._tokens = min(BURST_MAX, self._tokens + (now_s - self._filled_s) * LINES_PER_S)
        self._filled_s = now_s
        if self._tokens < 1:
            self._left_out += 1
            return
        self._tokens -= 1
        left_out, self._left_out = self._left_out, 0
        if left_out:
            text += f" (left out before this: {counted(left_out, 'line')} about connections)"
        self._log(logging.INFO, text)

    def _is_repeated(self, text: str, now_s: float) -> bool:
        """Whether the same line came a short time ago; remembers it."""
        before_s = self._told_s.pop(text, None)
        self._told_s[text] = now_s
        if len(self._told_s) > REMEMBERED_MAX:
            self._told_s.pop(next(iter(self._told_s)))
        return before_s is not None and now_s - before_s < REPEATED_S
