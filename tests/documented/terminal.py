"""One shell in which the commands of a page run in order, and the commands that stay, such as a server.

Invariant: a command that stays runs in a process group of its own, as in a terminal with job control. At the end it is
interrupted as with Ctrl-C, and must then end as commands do.
"""

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from pykraft.local.child import wait_until

INTERRUPTED_WITHIN_S = 30.0
ENDED_BY_CTRL_C = ("0", "130")
"""A server ends with 0; other commands as the shell reports SIGINT."""
PAGE_S = 600.0
"""A bound for the waits of a page; the page itself has a shorter one."""


class PageError(Exception):
    """What a page says is not so."""


class OutOfTimeError(Exception):
    """The time of the page is over. It interrupts whatever waits."""


@dataclass(frozen=True)
class Staying:
    """A command that runs until it is interrupted."""

    command: str
    process_id: int
    output: Path


class Terminal:
    """A shell with a folder for the output of its commands. Waits have no bound here: the page as a whole has one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = 0
        # What a program prints comes at once, as at a terminal, although it goes into a file.
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        self._shell = subprocess.Popen(
            ["bash", "--norc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.staying: list[Staying] = []
        self._send("exec 3>&1; set -m")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._shell.kill()
        self._shell.wait()
        for pipe in (self._shell.stdin, self._shell.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # words that it did not read before it was killed
                pipe.close()  # not read to its end: commands that still run have it open, too

    def run(self, command: str) -> str:
        """Run to the end; returns what it printed. The status must be 0."""
        output = self._next_output()
        self._send(f"{{ {command}\n}} </dev/null >{output} 2>&1\necho $? >&3")
        status = self._answer()
        text = output.read_text(errors="replace")
        if status != "0":
            raise PageError(f"status {status or 'unknown: the shell ended'}\n{text}")
        return text

    def repeat(self, command: str) -> str:
        """Run it again and again until its status is 0."""
        last: list[PageError] = []

        def tried() -> str | None:
            try:
                return self.run(command)
            except PageError as error:
                last[:] = [error]
                return None

        try:
            return wait_until(tried, f"success of {command}", timeout_s=PAGE_S)
        except OutOfTimeError:
            raise PageError(f"again and again: {last}") from None

    def start(self, command: str, ready: str) -> str:
        """Start a command that stays; returns what it has printed when ``ready`` is in it."""
        output = self._next_output()
        self._send(f"{{ {command}\n}} </dev/null >{output} 2>&1 &\necho $! >&3")
        staying = Staying(command, int(self._answer()), output)
        self.staying.append(staying)

        def shown() -> str | None:
            has_ended = _has_ended(staying.process_id)  # asked first, so that the last words of one that ends are seen
            text = output.read_text(errors="replace") if output.exists() else ""
            if ready in text:
                return text
            if has_ended:
                raise PageError(f"it ended, and should stay\n{text}")
            return None

        return wait_until(shown, f"{ready!r} from {command}", timeout_s=PAGE_S)

    def interrupt(self) -> None:
        """Ctrl-C in each terminal in which something still runs."""
        for staying in self.staying:
            if _has_ended(staying.process_id):
                raise PageError(f"{staying.command}\nit ended, and should stay\n{staying.output.read_text()}")
            with suppress(ProcessLookupError):  # it ended just now, and its status tells how
                os.killpg(staying.process_id, signal.SIGINT)
            what = f"the end of {staying.command} after Ctrl-C"
            wait_until(partial(_has_ended, staying.process_id), what, timeout_s=INTERRUPTED_WITHIN_S)
            self._send(f"wait {staying.process_id}; echo $? >&3")
            if (status := self._answer()) not in ENDED_BY_CTRL_C:
                raise PageError(f"{staying.command}\nstatus {status} after Ctrl-C\n{staying.output.read_text()}")
        self.staying.clear()

    def _next_output(self) -> Path:
        self._count += 1
        return self._directory / f"{self._count}.out"

    def _send(self, words: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(words + "\n")
        self._shell.stdin.flush()

    def _answer(self) -> str:
        assert self._shell.stdout is not None
        return self._shell.stdout.readline().strip()


def _has_ended(process_id: int) -> bool:
    """True when it ended; the shell may not have reaped it yet."""
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"
