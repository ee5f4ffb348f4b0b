"""Lets SIGTERM end a command that started processes the same way as Ctrl-C.

Installs a handler while the block lasts. The handler only raises; unwinding stops what the block started.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_SIGNAL = 128
"""Added to a signal's number, as a shell does."""


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Within this block SIGTERM unwinds as Ctrl-C does, so that no started process is left behind."""

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        sys.exit(EXIT_SIGNAL + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
