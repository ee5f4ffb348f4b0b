"""Talks to a process that holds file systems in a mount namespace of its own.

Such a process (`lab.chaos.disk_holder`, `lab.chaos.loop_holder`) answers each line with one line. Invariant: it
ends when its standard input does, and its mounts with it; so nothing stays mounted, however our process ends.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lab.chaos.disk_holder import DONE

END_TIMEOUT_S: Final = 20.0


class Holder:
    """The process and the folders on which it mounts file systems."""

    def __init__(self, module: str, size_bytes: int, folders: Sequence[Path]) -> None:
        """Create the folders, start ``module`` and wait until everything is mounted. Errors: OSError if it is not."""
        for folder in folders:
            folder.mkdir()
        self._folders = [folder.resolve() for folder in folders]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(size_bytes), *map(str, self._folders)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C must not end the holder before the disks are copied
        )
        said = self._answer()
        if said != DONE:
            self.close()
            raise OSError(said)

    def folder(self, index: int) -> Path:
        """The root of a file system, reachable by any process of this user."""
        return Path(f"/proc/{self._process.pid}/root{self._folders[index]}")

    def ask(self, *words: int) -> str:
        """Send a line; returns the answer, DONE or an error."""
        assert self._process.stdin is not None
        print(*words, file=self._process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        """Unmount all; the content of what is in memory only is lost."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(END_TIMEOUT_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip() or "its process ended"
