"""Provides file systems that can be full: a tmpfs for each such node, resized while the node runs.

`pykraft.chaos.disk_holder` is the process that holds them. Invariant: a full disk gives the node a real ENOSPC from the
kernel; nothing in the node knows. The content disappears when the block ends, so the caller copies what must survive.

Root may mount a tmpfs, and so may any user where the system allows user namespaces. Where neither is true this is an
error; the fault is never left out silently.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pykraft
from pykraft.chaos.disk_holder import DONE
from pykraft.errors import UsageError

ROOM_BYTES: Final = 4 * 1024**3
"""Size of a disk with room; a tmpfs only takes as much memory as is written."""
TRIES_MAX: Final = 100
"""The node keeps writing while its disk is filled, so the size that was just computed may be too small again."""
END_TIMEOUT_S: Final = 20.0


class Disks:
    """Some disks, each a folder that only the path `folder` leads to; `close` unmounts them all."""

    def __init__(self, home: Path, count: int) -> None:
        """Create the mount points below ``home``. Errors: UsageError if nothing can be mounted here."""
        folders = [home / f"disk{index}" for index in range(count)]
        for folder in folders:
            folder.mkdir()
        self._folders = [folder.resolve() for folder in folders]
        self._holder = subprocess.Popen(
            [sys.executable, "-m", "pykraft.chaos.disk_holder", str(ROOM_BYTES), *map(str, self._folders)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(Path(pykraft.__file__).resolve().parents[1])},
            text=True,
            start_new_session=True,  # Ctrl-C must not end the holder before the disks are copied
        )
        said = self._answer()
        if said != DONE:
            self.close()
            raise UsageError(
                f"no small file system can be mounted here ({said}): a full disk needs root, or a system that lets "
                "users make user namespaces; leave it out with --without full-disk"
            )

    def folder(self, index: int) -> Path:
        """The root of a disk, reachable by any process of this user."""
        return Path(f"/proc/{self._holder.pid}/root{self._folders[index]}")

    def fill(self, index: int, *, left_bytes: int = 0) -> None:
        """Leave this much room and no more: further bytes fail with ENOSPC."""
        said = ""
        for _ in range(TRIES_MAX):
            found = os.statvfs(self.folder(index))
            used_bytes = (found.f_blocks - found.f_bfree) * found.f_frsize
            said = self._resize(index, max(found.f_frsize, used_bytes + left_bytes))
            if said == DONE:
                return
        raise OSError(f"a disk could not be filled: {said}")

    def make_room(self, index: int) -> None:
        """Give the disk room again."""
        said = self._resize(index, ROOM_BYTES)
        if said != DONE:
            raise OSError(f"a disk could not be enlarged: {said}")

    def close(self) -> None:
        """Unmount all; their content is lost."""
        assert self._holder.stdin is not None
        self._holder.stdin.close()
        self._holder.wait(END_TIMEOUT_S)
        assert self._holder.stdout is not None
        self._holder.stdout.close()

    def _resize(self, index: int, size_bytes: int) -> str:
        assert self._holder.stdin is not None
        print(index, size_bytes, file=self._holder.stdin, flush=True)
        return self._answer()

    def _answer(self) -> str:
        assert self._holder.stdout is not None
        return self._holder.stdout.readline().rstrip() or "its process ended"
