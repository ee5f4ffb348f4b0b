"""Ends a command that gets SIGINT, SIGTERM or SIGHUP: within a second, with one line, and with nothing left behind.

The first signal raises SystemExit in the main thread. Unwinding stops what the command started and removes its
temporary files; further signals, warnings and tracebacks of what breaks meanwhile are suppressed. At last
`pykraft.__main__` ends the process by that signal, so that a shell reports 128 + its number. Code that does not let
itself be interrupted cannot delay this: `UNWIND_S` after the signal a thread ends the process.

A closed terminal fails reads and writes with EIO, and the kernel sends SIGHUP. What comes first is chance, so a command
that fails because its terminal is closed ends by SIGHUP (`hang_up`). A server replaces these handlers once it serves.
"""

import _thread
import errno
import logging
import os
import select
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NoReturn, TypeVar

from pykraft.process.signals import ending_signals, handlers_restored

EXIT_SIGNAL: Final = 128
"""Added to a signal's number, as a shell does."""
UNWIND_S: Final = 0.7
FLUSH_S: Final = 0.1
STANDARD_STREAMS: Final = (0, 1, 2)

T = TypeVar("T")


class CommandInterrupted(SystemExit):
    """The command ended because of this signal; everything it started has ended too."""

    def __init__(self, number: int) -> None:
        super().__init__(EXIT_SIGNAL + number)
        self.number = number

    def end_process(self) -> NoReturn:
        """End this process by the signal, without Python's own clean-up, which might wait for threads."""
        # A reader that reads nothing must not delay the end.
        _thread.start_new_thread(_end_after, (FLUSH_S, EXIT_SIGNAL + self.number))
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):  # the reader is gone, or there was no such stream
                stream.flush()
        signal.signal(self.number, signal.SIG_DFL)
        os.kill(os.getpid(), self.number)
        os._exit(EXIT_SIGNAL + self.number)  # process 1 of a container survives its own signal


class _Interruption:
    """The first signal, and the thread that ends the process if unwinding takes too long."""

    def __init__(self, name: str, end: Callable[[int], object]) -> None:
        self.number: int | None = None
        self._name = name
        self._end = end
        self._is_told = False
        self._is_over = False

    def begin(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal. Only the first one counts: a second one would interrupt the clean-up."""
        del frame
        if self.number is not None:
            return
        self.number = number
        # Not threading.Thread: its `start` takes locks that the interrupted code may hold.
        _thread.start_new_thread(self._end_late, ())
        self._end(number)

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signals within the block. After it unwinding is over: the thread must not end the process."""
        with handlers_restored(ending_signals()):
            for number in ending_signals():
                signal.signal(number, self.begin)
            try:
                yield
            finally:
                self._is_over = True

    def print_line(self) -> None:
        if self._is_told or self.number is None:
            return
        self._is_told = True
        name = signal.Signals(self.number).name
        told = "interrupted" if self.number == signal.SIGINT else f"ended by {name}"
        with suppress(OSError, ValueError, AttributeError):  # as in `CommandInterrupted.end_process`
            begin = "\r" if sys.stderr.isatty() else ""  # over the ^C that the terminal shows
            sys.stderr.write(f"{begin}{self._name}: {told}\n")
            sys.stderr.flush()

    def _end_late(self) -> None:
        time.sleep(UNWIND_S)
        if self._is_over or self.number is None:
            return
        self.print_line()
        os._exit(EXIT_SIGNAL + self.number)


def interruptible(command: Callable[[], T], name: str = "pykraft") -> T:
    """Run a command, which a signal ends as the module says; ``name`` begins the line.

    Errors: CommandInterrupted, instead of whatever the unwinding raised.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        return command()
    interruption = _Interruption(name, _unwind)
    disabled, unraisable, in_thread = logging.root.manager.disable, sys.unraisablehook, threading.excepthook
    try:
        with interruption.handled():
            try:
                result = command()
            except BaseException as error:
                if is_input_output_error(error):
                    hang_up()
                # What breaks while blocks are left, such as a write to a closed terminal, is a consequence of the
                # signal.
                if interruption.number is None or isinstance(error, CommandInterrupted):
                    raise
                raise CommandInterrupted(interruption.number) from None
    finally:
        sys.unraisablehook, threading.excepthook = unraisable, in_thread
        logging.disable(disabled)
        interruption.print_line()
    if interruption.number is not None:  # the command has caught what the signal raised
        raise CommandInterrupted(interruption.number)
    return result


@contextmanager
def signals_to(on_signal: Callable[[signal.Signals], object]) -> Iterator[None]:
    """Within this block the first signal is given to ``on_signal`` and raises nothing.

    The process still ends `UNWIND_S` later, for example if what ``on_signal`` wants to end writes to a full pipe.
    """
    interruption = _Interruption("pykraft", lambda number: on_signal(signal.Signals(number)))
    with interruption.handled():
        yield


@contextmanager
def last_act() -> Iterator[None]:
    """What a process is for: after this block it ends, by the signal that interrupted the block if one did.

    What the standard streams still cannot write is dropped: the command has told of it by then, and Python would tell
    another story at exit, with a status of 120.
    """
    try:
        yield
    except CommandInterrupted as interrupted:
        interrupted.end_process()
    finally:
        for stream in filter(None, (sys.__stdout__, sys.__stderr__)):
            try:
                stream.flush()
            except (OSError, ValueError):
                with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - no path is made
                    os.dup2(nowhere.fileno(), stream.fileno())


def is_input_output_error(error: BaseException) -> bool:
    """Whether this is how a read or a write of a closed terminal fails."""
    return isinstance(error, OSError) and error.errno == errno.EIO


def hang_up(*descriptors: int) -> bool:
    """Raise SIGHUP if one of these is a terminal that was closed, by default of the standard streams.

    False if none is, or if SIGHUP is ignored. Errors: CommandInterrupted, from the handler of the signal.
    """
    if signal.SIGHUP not in ending_signals() or not any(map(_is_closed_terminal, descriptors or STANDARD_STREAMS)):
        return False
    signal.raise_signal(signal.SIGHUP)
    return True


def _is_closed_terminal(descriptor: int) -> bool:
    try:
        if not stat.S_ISCHR(os.fstat(descriptor).st_mode):  # isatty is false once it is closed
            return False
    except OSError:
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))


def _unwind(number: int) -> NoReturn:
    # Suppress what Python, asyncio and libraries print about code that was interrupted.
    logging.disable(logging.CRITICAL)
    sys.unraisablehook = lambda _: None
    threading.excepthook = lambda _: None
    raise CommandInterrupted(number)


def _end_after(seconds: float, status: int) -> NoReturn:
    time.sleep(seconds)
    os._exit(status)
