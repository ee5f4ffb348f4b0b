"""Puts signal handlers back, and delays the signals that end a process.

Invariant: after each block, signals do what they did before it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pykraft.ending_signals import ending_signals


@contextmanager
def handlers_restored(numbers: Iterable[int]) -> Iterator[None]:
    """Put the handlers of these signals back when the block ends.

    Only the main thread can set handlers, so another thread has nothing to put back.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # None: a library set it, not Python, and Python cannot set it again
                signal.signal(number, handler)


@contextmanager
def signals_later() -> Iterator[None]:
    """Delay SIGINT, SIGTERM and SIGHUP until this block ends.

    Signals interrupt only the main thread, so in another thread there is nothing to delay.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    numbers = [number for number in ending_signals() if signal.getsignal(number) is not None]  # as above
    try:
        with handlers_restored(numbers):
            for each in numbers:
                signal.signal(each, lambda number, _frame: came.append(number))
            yield
    finally:
        for late in came:
            signal.raise_signal(late)
