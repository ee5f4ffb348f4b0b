"""The signals that end a process of ours: which they are, how they wait, and how they are handled while it starts.

A signal that the process was started to ignore stays ignored: ``nohup`` starts a process with SIGHUP ignored, and a
shell script starts a background job with SIGINT ignored.

Invariants: after each block, signals do what they did before it. This module imports only what Python has loaded, or
loads without reading many files, since `end_on_early_signals` is the first call of a process.

Source: the JVM (``JVM_RegisterSignal``), whose shutdown signals are SIGHUP, SIGINT and SIGTERM.
"""

import os
import select
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NoReturn

_STANDARD_ERROR: Final = 2


def end_on_early_signals(name: str) -> None:
    """Handle the signals that this process was not started to ignore; ``name`` begins the line. Unblock all three.

    Each process of the command line calls this first, and not the workers that it starts.
    """
    for number in ending_signals():
        signal.signal(number, _handler(name))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def _handler(name: str) -> Callable[[int, FrameType | None], None]:
    def end(number: int, frame: FrameType | None) -> NoReturn:
        del frame
        told = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
        with suppress(OSError):  # the terminal is closed
            # Not sys.stderr, in whose code the signal may have come.
            begin = "\r" if os.isatty(_STANDARD_ERROR) else ""  # over the ^C that the terminal shows
            if select.select([], [_STANDARD_ERROR], [], 0)[1]:  # nobody waits for a reader that reads nothing
                os.write(_STANDARD_ERROR, f"{begin}{name}: {told}\n".encode())
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        # The kernel does not deliver this to process 1 of a container. Without a handler `docker stop` would wait there
        # in vain, and then kill the node.
        os._exit(128 + number)

    return end


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C; `kill`, systemd and container runtimes; the terminal was closed."""


def ending_signals() -> tuple[signal.Signals, ...]:
    """Those of `ENDING` that this process does not ignore."""
    return tuple(number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN)


def _is_main_thread() -> bool:
    import threading  # not when the process starts: it takes longer than the rest of this module

    return threading.current_thread() is threading.main_thread()


@contextmanager
def handlers_restored(numbers: Iterable[int]) -> Iterator[None]:
    """Put the handlers of these signals back when the block ends.

    Only the main thread can set handlers, so another thread has nothing to put back.
    """
    if not _is_main_thread():
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
    if not _is_main_thread():
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
