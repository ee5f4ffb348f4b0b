"""What is made from files, and made anew when they have changed: certificates, users, keys, rules, credentials.

Invariants: what cannot be used leaves everything as it was, and is tried again until it can; each problem is reported
once for each state of the files.

Source: Kafka's ``SslFactory`` (reconfiguration); KIP-1119.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pykraft.errors import UsageError

logger = logging.getLogger("pykraft")


class FromFiles:
    """What is made from files, and made anew when they have changed."""

    what: ClassVar[str]
    """What the files have, for messages."""

    def __init__(self, files: Sequence[Path]) -> None:
        """Make it. Errors: as `make`."""
        self._paths = files
        self._seen = self._files()
        self._problem: str | None = None
        self.make()

    def make(self) -> None:
        """Read the files. Errors: UsageError, such as a ConfigError; then everything stays as it was."""

    @property
    def is_stale(self) -> bool:
        """True while the files have changed, but cannot be used."""
        return self._problem is not None

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
        former = self._problem
        try:
            self.make()
        except UsageError as error:
            self._problem = f"changed {self.what} are not taken up, the former ones stay in use: {error}"
            return self._problem if has_changed or self._problem != former else None
        self._problem = None
        return f"{self.in_use} were read again: {', '.join(map(str, self._paths))}"

    def take_up(self) -> None:
        """`refresh`, and log what came of it."""
        report = self.refresh()
        if report is not None:
            logger.log(logging.ERROR if self.is_stale else logging.INFO, "%s", report)

    def _files(self) -> list[tuple[int, int, int] | None]:
        """What tells one state of the files from another."""
        found: list[tuple[int, int, int] | None] = []
        for path in self._paths:
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
