"""What a row of the table of stops is made of: endings, the scene, stages, and how a running command is looked at."""

import re
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A signal, or something at the terminal."""

    name: str
    status: int
    number: signal.Signals | None = None
    is_typed: bool = False

    @property
    def line(self) -> str:
        """The end of the one line."""
        is_int = self.status == signal.SIGINT
        return ": interrupted" if is_int else f": ended by {signal.Signals(self.status).name}"


ENDINGS = (
    Ending(name="Ctrl-C", status=signal.SIGINT, is_typed=True),
    Ending(name="SIGTERM", status=signal.SIGTERM, number=signal.SIGTERM),
    Ending(name="SIGHUP", status=signal.SIGHUP, number=signal.SIGHUP),
    Ending(name="closed terminal", status=signal.SIGHUP),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """``silent`` accepts connections and answers nothing; ``live`` is a quorum of one; ``lonely`` finds no leader."""

    folder: Path
    silent: str
    live: str
    lonely: str
    live_data: Path
    """The log directory of ``live``."""
    tables: Callable[[Path], Path]
    """Copies tables that a pipeline wrote into this folder."""
    hold: Callable[[Path], None]
    """Opens a fifo for writing, writes nothing, and keeps it open."""


@dataclass(frozen=True, slots=True)
class Running:
    """A command that runs."""

    pid: int
    home: Path
    text: Callable[[], str]
    """What it has written to the terminal."""
    count: Callable[[], int]
    """How many processes belong to it, with itself."""

    def waits_in(self, name: str) -> bool:
        """Whether its main thread waits in a function of the kernel with this in its name."""
        with suppress(OSError):
            return name in Path(f"/proc/{self.pid}/wchan").read_text()
        return False

    def program_is(self, name: str) -> bool:
        """Whether the process runs a program whose name begins so, and no longer one that starts it."""
        with suppress(OSError):
            return Path(f"/proc/{self.pid}/exe").readlink().name.startswith(name)
        return False

    def handles_signals(self) -> bool:
        """Whether Python code is called when SIGTERM comes."""
        with suppress(OSError):
            found = re.search(r"(?m)^SigCgt:\s*(\w+)$", Path(f"/proc/{self.pid}/status").read_text())
            return found is not None and bool(int(found[1], 16) >> (signal.SIGTERM - 1) & 1)
        return False

    def output(self) -> str:
        """Its standard output, if that is a file."""
        with suppress(OSError):
            return (self.home / "output").read_text(errors="replace")
        return ""


def nothing(line: str) -> bool:
    del line
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A moment in the life of a command."""

    name: str
    words: Callable[[Scene, Path], Sequence[str]]
    is_reached: Callable[[Running], bool]
    """Once it is true, it stays true: a machine that is busy may look late."""
    typed: bytes = b""
    """What is typed at its terminal."""
    is_blocked: bool = False
    """Its standard output is a full pipe."""
    is_graceful: bool = False
    """It ends with 0, and its own log lines."""
    is_told: bool = True
    leaves_files: bool = False
    """It writes into folders that the user named, and they stay."""
    is_progress: Callable[[str], bool] = nothing
    """Whether a line was drawn over by others on a terminal."""
    other_status: int | None = None
    """A status that it may also end with."""
    may_take_s: float = 0.0
    """How much longer than any command it may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A command and its stages; the stage ``processes`` of bin/test plays the last one."""

    command: str
    stages: tuple[Stage, ...]
    is_spark: bool = False


Words = Callable[[Scene, Path], Sequence[str]]


def waits_for_writer(running: Running) -> bool:
    """It opens a fifo that nobody writes to."""
    return running.waits_in("wait_for_partner")


def waits_for_answer(running: Running) -> bool:
    """It waits in its loop. While it imports, it does not."""
    return running.waits_in("poll")


def waits_for_text(running: Running) -> bool:
    """It reads a fifo to which nobody writes."""
    return running.waits_in("pipe_read")


def waits_for_reader(running: Running) -> bool:
    """It writes to a full pipe."""
    return running.waits_in("pipe_write")


def starts(running: Running) -> bool:
    """Python itself starts: signals are blocked and wait."""
    return running.program_is("python")


def loads(running: Running) -> bool:
    """Signals are handled, and the package loads."""
    return running.program_is("python") and running.handles_signals()


def loading(command: str, own: Stage) -> tuple[Stage, ...]:
    """The stages before a command does anything, with the words of one of its own stages."""
    early = replace(own, is_graceful=False, may_take_s=0.0)
    stages = (replace(early, name="starts", is_reached=starts), replace(early, name="loads", is_reached=loads))
    if not command.startswith("bin/"):
        return stages
    # No line is promised: for some milliseconds one program replaces another.
    return (replace(early, name="begins as a script", is_reached=lambda _: True, is_told=False), *stages)


def stage(
    name: str,
    words: Words,
    is_reached: Callable[[Running], bool],
    *,
    is_blocked: bool = False,
    leaves_files: bool = False,
    is_progress: Callable[[str], bool] = nothing,
    typed: bytes = b"",
) -> Stage:
    return Stage(
        name=name,
        words=words,
        is_reached=is_reached,
        is_blocked=is_blocked,
        leaves_files=leaves_files,
        is_progress=is_progress,
        typed=typed,
    )


def opens(words: Words) -> Stage:
    """It opens a file, a fifo to which nobody writes."""
    return stage("opens", words, waits_for_writer)


def reads(words: Words, **how: Any) -> Stage:
    """It reads a file, a fifo to which somebody writes nothing."""
    return stage("reads", words, waits_for_text, **how)


def writes(words: Words, **how: Any) -> Stage:
    """It writes its result to a pipe that nobody reads."""
    return stage("writes", words, waits_for_reader, is_blocked=True, **how)
