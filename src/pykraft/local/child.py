"""Starts child processes, each with a log file, waits for their effects, and leaves neither them nor folders behind.

Invariant: however a `Children` block ends, every process started in it is dead and reaped. A wait checks again and
again until a deadline, never for a fixed time, and ends at once when the process that must bring about the result has
died.

If this process dies within the block, by kill -9 for example, a `Keeper` sees that the pipe from us is closed, kills
the child processes and removes the temporary folders. It is a shell, which starts in a millisecond and takes a
megabyte, in a session of its own, so that no signal of a terminal reaches it. A child could watch such a pipe itself,
but not while it is paused, and a Java process not at all. A process leaves the keeper's list as soon as it is reaped,
so its id does not belong to another process while it is there.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, Self, TypeVar

from pykraft.errors import LocalQuorumError
from pykraft.process.signals import signals_later

SCRIPT: Final = """
while IFS= read -r line; do
    case $line in
    processes*) processes=${line#processes} ;;
    folder*) set -- "$@" "${line#folder }" ;;
    esac
done
[ -z "$processes" ] || kill -s KILL -- $processes 2>/dev/null
tries=100
# What a process wrote while it was killed makes rm fail once.
until [ $# -eq 0 ] || rm -rf -- "$@" 2>/dev/null || [ $tries -eq 0 ]; do
    tries=$((tries - 1))
    sleep 0.1
done
"""


class Keeper:
    """The process; close it after everything that it knows of is gone."""

    def __init__(self) -> None:
        with signals_later():
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", SCRIPT, "pykraft-keeper"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )

    def know_processes(self, ids: Iterable[int]) -> None:
        """These are all child processes that there are now; a negative id is that of a process group."""
        self._send(" ".join(map(str, ("processes", *ids))))

    def know_folder(self, folder: Path) -> None:
        path = str(folder.resolve())
        if "\n" not in path:  # the keeper would take the first line for the folder
            self._send(f"folder {path}")

    def stay(self) -> None:
        """Leave it until this process ends; `close` then does nothing."""
        _STAYING.append(self)

    def close(self) -> None:
        """End it, without killing or removing anything."""
        if self in _STAYING:
            return
        self._process.kill()
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait()

    def _send(self, line: str) -> None:
        """Errors: none; if somebody killed the keeper, we go on without it."""
        assert self._process.stdin is not None
        with suppress(OSError):
            os.write(self._process.stdin.fileno(), os.fsencode(line) + b"\n")


_STAYING: Final[list[Keeper]] = []
"""Their pipes stay open."""


def never(error: BaseException | None) -> bool:
    """A temporary folder is never kept."""
    del error
    return False


def temporary_root() -> str:
    """The folder for temporary ones. To find it, Python writes a file there, which an interrupt would leave behind."""
    with signals_later():
        return tempfile.gettempdir()


@contextmanager
def temporary_folder(
    prefix: str, parent: Path | None = None, *, is_kept: Callable[[BaseException | None], bool] = never
) -> Iterator[Path]:
    """A new folder below ``parent``, by default the system's temporary folder; removed however this process ends.

    At the end of the block ``is_kept`` gets the error that ended it, if there is one, and may decide that the folder
    stays.
    """
    keeper = Keeper()
    folder: Path | None = None
    try:
        with signals_later():
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            keeper.know_folder(folder)
        yield folder
    except BaseException as error:
        is_left = is_kept(error)
        _remove(folder, unless=is_left)
        if not (is_left or isinstance(error, Exception)):
            # An interrupt. Threads go on until the process ends, and what they write meanwhile is for the keeper.
            keeper.stay()
        raise
    else:
        _remove(folder, unless=is_kept(None))
    finally:
        keeper.close()


def _remove(folder: Path | None, *, unless: bool) -> None:
    if folder is not None and not unless:
        shutil.rmtree(folder, ignore_errors=True)


ERROR_FD = 2
LOG_TAIL_LINES = 60
WAIT_TIMEOUT_S = 60.0
"""The bound on every wait for a local quorum. What has not happened by then never will, however busy the machine is."""


class Child:
    """One process. Its standard output and error are appended to ``log_path``; without one both go to our own error."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_path: Path | None,
        *,
        on_reaped: Callable[[], None],
        pass_fds: Sequence[int] = (),
        environment: dict[str, str],
        stdin: int = subprocess.DEVNULL,
        has_group: bool = False,
    ) -> None:
        self.name = name
        self.has_group = has_group
        self.log_path = log_path
        self._on_reaped = on_reaped
        self._is_reaped = False
        with ExitStack() as stack:
            log = stack.enter_context(log_path.open("ab")) if log_path is not None else ERROR_FD
            self._process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=pass_fds,
                env=os.environ | environment,
                start_new_session=has_group,
            )

    @property
    def pid(self) -> int:
        """Process id; it belongs to this process until the process is reaped."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Exit status, negative for a signal, None while it runs."""
        status = self._process.poll()
        self._poll()
        return status

    @property
    def is_reaped(self) -> bool:
        """True if the system may give its process id to another process."""
        return self._process.returncode is not None

    def log(self) -> str:
        """The whole log so far; nothing without a log."""
        return "" if self.log_path is None else self.log_path.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to exactly this process; do nothing if it has ended."""
        self._process.send_signal(number)
        self._poll()

    def kill(self) -> None:
        """Send SIGKILL and wait for the end. Works on a paused process too."""
        self.send_kill()
        self.wait()

    def send_kill(self) -> None:
        """Send SIGKILL, to its whole group if it has one."""
        if self.has_group and not self.is_reaped:
            os.killpg(self.pid, signal.SIGKILL)
        self.signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM: ask the process to end gracefully."""
        self.signal(signal.SIGTERM)

    def stop(self, *, timeout_s: float = WAIT_TIMEOUT_S) -> int:
        """Send SIGTERM and wait; returns the exit status. Errors: subprocess.TimeoutExpired."""
        self.terminate()
        return self.wait(timeout_s=timeout_s)

    def wait(self, *, timeout_s: float = WAIT_TIMEOUT_S) -> int:
        """Wait until the process ends by itself; returns the exit status. Errors: subprocess.TimeoutExpired."""
        status = self._process.wait(timeout_s)
        self._poll()
        return status

    def pause(self) -> None:
        """Send SIGSTOP: the process keeps its connections and sends nothing."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT."""
        self.signal(signal.SIGCONT)

    def _poll(self) -> None:
        if self.is_reaped and not self._is_reaped:
            self._is_reaped = True
            self._on_reaped()


class Children:
    """The processes of one block; ``report`` gets the ends of their logs when the block is over."""

    def __init__(self, report: Callable[[str], None] | None = None) -> None:
        self._report = report
        self._children: list[Child] = []
        self._keeper: Keeper | None = None
        self._is_over = False
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:  # another thread may be starting one
            self._is_over = True
        for child in self._children:
            child.send_kill()
        for child in self._children:
            child.wait()
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None
        if self._report is not None:
            self._report(self.log_ends())

    def log_ends(self) -> str:
        ends: list[str] = []
        logs = {child.log_path: child.name for child in self._children if child.log_path is not None}
        for path, name in logs.items():
            ends += [f"--- the end of {name}'s log, {path}"]
            ends += path.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return "\n".join(ends)

    def start(
        self,
        name: str,
        command: Sequence[str],
        log_path: Path | None,
        *,
        pass_fds: Sequence[int] = (),
        environment: dict[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        has_group: bool = False,
    ) -> Child:
        """Start a process that ends with this block at the latest; ``environment`` is added to our own.

        ``stdin`` is a descriptor; without it the process has no input. Without ``log_path`` it writes to our standard
        error. With ``has_group`` it gets a session and a process group of its own: signals of the terminal do not reach
        it, and the processes that it starts die with it.

        Errors: LocalQuorumError once the block is over, for a thread that goes on.
        """
        with self._lock, signals_later():  # a Ctrl-C before the list has it would leave a process that nobody ends
            if self._is_over:
                raise LocalQuorumError(f"{name} was not started: what it belongs to has ended")
            if self._keeper is None:
                self._keeper = Keeper()
            child = Child(
                name,
                command,
                log_path,
                on_reaped=self._send_to_keeper,
                pass_fds=pass_fds,
                environment=environment or {},
                stdin=stdin,
                has_group=has_group,
            )
            self._children.append(child)
            self._send_to_keeper()
        return child

    def _send_to_keeper(self) -> None:
        with self._lock:
            if self._keeper is not None:
                living = [child for child in self._children if not child.is_reaped]
                self._keeper.know_processes(-child.pid if child.has_group else child.pid for child in living)


T = TypeVar("T")

POLL_INTERVAL_S = 0.02


def wait_until(
    poll: Callable[[], T | None],
    what: str,
    *,
    timeout_s: float = WAIT_TIMEOUT_S,
    alive: Sequence[Child] = (),
    pause: Callable[[float], object] = time.sleep,
    interval_s: float = POLL_INTERVAL_S,
) -> T:
    """The first result of ``poll`` that is neither None nor False; ``pause`` waits between two.

    Errors: LocalQuorumError with ``what`` at the timeout, and as soon as one of the processes that must stay ``alive``
    has ended; any exception of ``poll``.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        result = poll()
        if result is not None and result is not False:
            return result
        ended = [f"{child.name} ended with {child.status}" for child in alive if child.status is not None]
        if ended:
            raise LocalQuorumError(f"while waiting for {what}: {', '.join(ended)}")
        if time.monotonic() >= deadline:
            raise LocalQuorumError(f"waited {timeout_s:g} s for {what}")
        pause(interval_s)
