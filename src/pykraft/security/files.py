"""What is made from files, and made anew when they have changed: certificates, users, keys, rules, credentials.

Invariants: what cannot be used leaves everything as it was, and is tried again until it can; each problem is reported
once for each state of the files.

Source: Kafka's ``SslFactory`` (reconfiguration); KIP-1119.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from threading import RLock
from typing import ClassVar

from pykraft.errors import UsageError

logger = logging.getLogger("pykraft")


class FileState(Enum):
    """What became of files that may have changed."""

    UNCHANGED = "unchanged"
    TAKEN_UP = "taken up"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """What became of some files that belong together; ``problem`` says why they are refused."""

    what: str
    files: tuple[Path, ...]
    state: FileState
    problem: str | None = None

    def as_json(self) -> dict[str, object]:
        """The same for JSON."""
        files = [str(path) for path in self.files]
        return {"what": self.what, "files": files, "state": self.state.value, "problem": self.problem}


class FromFiles:
    """What is made from files, and made anew when they have changed."""

    what: ClassVar[str]
    """What the files have, for messages."""

    def __init__(self, files: Sequence[Path]) -> None:
        """Make it. Errors: as `make`."""
        self.files = tuple(files)
        self._seen = self._files()
        self._reason: str | None = None
        self._lock = RLock()
        self.make()

    def make(self) -> None:
        """Read the files. Errors: UsageError, such as a ConfigError; then everything stays as it was."""

    @property
    def is_stale(self) -> bool:
        """True while the files have changed, but cannot be used."""
        return self._reason is not None

    @property
    def in_use(self) -> str:
        """What is in use, for messages."""
        return self.what

    def refresh(self) -> str | None:
        """Take up changed files; returns what to report, if there is anything new. It may be called on any thread."""
        seen = self._files()
        has_changed, self._seen = seen != self._seen, seen
        if not has_changed and not self.is_stale:
            return None
        former = self._reason
        try:
            self.make()
        except UsageError as error:
            self._reason = str(error)
            told = f"changed {self.what} are not taken up, the former ones stay in use: {error}"
            return told if has_changed or self._reason != former else None
        self._reason = None
        return f"{self.in_use} were read again: {', '.join(map(str, self.files))}"

    def take_up(self) -> FileReport:
        """`refresh`, log what is new, and return what came of it. Threads take turns."""
        with self._lock:
            told = self.refresh()
            if told is not None:
                logger.log(logging.ERROR if self.is_stale else logging.INFO, "%s", told)
            return self.report(FileState.UNCHANGED if told is None else FileState.TAKEN_UP)

    def report(self, unless_refused: FileState = FileState.UNCHANGED) -> FileReport:
        """How these files are."""
        problem = self._reason
        state = unless_refused if problem is None else FileState.REFUSED
        return FileReport(what=self.what, files=self.files, state=state, problem=problem)

    def _files(self) -> list[tuple[int, int, int] | None]:
        """What tells one state of the files from another."""
        found: list[tuple[int, int, int] | None] = []
        for path in self.files:
            try:
                stat = path.stat()
            except OSError:
                found.append(None)
            else:
                found.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return found


def read_bounded(path: Path, size_bytes_max: int) -> bytes:
    """All of a file. Errors: OSError; ValueError for a larger one."""
    with path.open("rb") as file:
        content = file.read(size_bytes_max + 1)
    if len(content) > size_bytes_max:
        raise ValueError(f"it has more than {size_bytes_max} bytes")
    return content
