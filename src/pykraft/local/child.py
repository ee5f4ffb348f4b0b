"""Starts child processes, each with a log file; stops each by its own pid and leaves none behind.

Invariant: however a `Children` block ends, every process started in it is dead and reaped. The block can report the
ends of their logs. What the processes run is up to the caller.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

LOG_TAIL_LINES = 60
WAIT_TIMEOUT_S = 60.0
"""The bound on every wait for a local quorum. What has not happened by then never will, however busy the machine is."""


class Child:
    """One process. Its standard output and error are appended to ``log_path``."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_path: Path,
        *,
        pass_fds: Sequence[int] = (),
        environment: dict[str, str],
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        self.name = name
        self.log_path = log_path
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=pass_fds,
                env=os.environ | environment,
            )

    @property
    def pid(self) -> int:
        """Process id; it belongs to this process until the process is reaped."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Exit status, negative for a signal, None while it runs."""
        return self._process.poll()

    def log(self) -> str:
        """The whole log so far."""
        return self.log_path.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to exactly this process; do nothing if it has ended."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Send SIGKILL and wait for the end. Works on a paused process too."""
        self.signal(signal.SIGKILL)
        self._process.wait(WAIT_TIMEOUT_S)

    def terminate(self) -> None:
        """Send SIGTERM: ask the process to end gracefully."""
        self.signal(signal.SIGTERM)

    def stop(self, *, timeout_s: float = WAIT_TIMEOUT_S) -> int:
        """Send SIGTERM and wait; returns the exit status. Errors: subprocess.TimeoutExpired."""
        self.terminate()
        return self.wait(timeout_s=timeout_s)

    def wait(self, *, timeout_s: float = WAIT_TIMEOUT_S) -> int:
        """Wait until the process ends by itself; returns the exit status. Errors: subprocess.TimeoutExpired."""
        return self._process.wait(timeout_s)

    def pause(self) -> None:
        """Send SIGSTOP: the process keeps its connections and sends nothing."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT."""
        self.signal(signal.SIGCONT)


class Children:
    """The processes of one block; ``report`` gets the ends of their logs when the block is over."""

    def __init__(self, report: Callable[[str], None] | None = None) -> None:
        self._report = report
        self._children: list[Child] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for child in self._children:
            child.signal(signal.SIGKILL)
        for child in self._children:
            child.wait()
        if self._report is not None:
            self._report(self.log_ends())

    def log_ends(self) -> str:
        """The last lines of every log."""
        ends: list[str] = []
        for path, name in {child.log_path: child.name for child in self._children}.items():
            ends += [f"--- the end of {name}'s log, {path}"]
            ends += path.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return "\n".join(ends)

    def start(
        self,
        name: str,
        command: Sequence[str],
        log_path: Path,
        *,
        pass_fds: Sequence[int] = (),
        environment: dict[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> Child:
        """Start a process that ends with this block at the latest; ``environment`` is added to our own.

        ``stdin`` is a descriptor; without it the process has no input.
        """
        with _signals_later():  # a Ctrl-C between these two lines would leave a process that nobody ends
            child = Child(name, command, log_path, pass_fds=pass_fds, environment=environment or {}, stdin=stdin)
            self._children.append(child)
        return child


@contextmanager
def _signals_later() -> Iterator[None]:
    """Delay SIGINT and SIGTERM until this block ends.

    Signals interrupt only the main thread, so in another thread there is nothing to delay.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {
        number: handler for number, handler in handlers.items() if handler is not None
    }  # None: not set from Python
    for each in before:
        signal.signal(each, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)
