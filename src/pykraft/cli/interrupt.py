"""SIGTERM for commands that started processes: the same way out as Ctrl-C.

Owns the handler while the block lasts. It refuses to know what is to be ended: that is what unwinding does.
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
    """Within it SIGTERM unwinds as Ctrl-C does, so that nothing that was started is left behind."""

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        sys.exit(EXIT_SIGNAL + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
