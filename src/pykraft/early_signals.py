"""Ends a process that gets SIGINT, SIGTERM or SIGHUP while the command line still loads: at once, with one line.

`pykraft.cli.interrupt` replaces these handlers; what it needs takes a tenth of a second to import. ``bin/pykraft``
blocks the three signals before it starts Python, so that what arrives before `tell_early_signals` is delivered there.

Invariant: this module imports only what Python has loaded, or loads without reading many files.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final, NoReturn

from pykraft.ending_signals import ENDING, ending_signals

_STANDARD_ERROR: Final = 2


def tell_early_signals(name: str) -> None:
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
