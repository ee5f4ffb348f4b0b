"""What a row of the table of stops is made of: endings, the scene, stages, and how a running command is looked at."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


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
    """``silent`` accepts connections and answers nothing; ``live`` is a quorum of one."""

    folder: Path
    silent: str
    live: str


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

    def command_is(self, word: str) -> bool:
        """Whether the process runs a program with this word, and no longer a shell that starts it."""
        with suppress(OSError):
            return word.encode() in Path(f"/proc/{self.pid}/cmdline").read_bytes()
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
    is_reached: Callable[[Running], bool] | None
    """None: a few hundredths of a second after exec."""
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
