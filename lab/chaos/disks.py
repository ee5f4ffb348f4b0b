"""Provides file systems that can be full: a tmpfs for each such node, resized while the node runs.

`lab.chaos.disk_holder` is the process that holds them. Invariant: a full disk gives the node a real ENOSPC from the
kernel; nothing in the node knows. The content disappears when the block ends, so the caller copies what must survive.

Root may mount a tmpfs, and so may any user where the system allows user namespaces. Where neither is true this is an
error; the fault is never left out silently.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from lab.chaos.disk_holder import DONE
from lab.chaos.holder import Holder
from pykraft.errors import UsageError

ROOM_BYTES: Final = 4 * 1024**3
"""Size of a disk with room; a tmpfs only takes as much memory as is written."""
TRIES_MAX: Final = 100
"""The node keeps writing while its disk is filled, so the size that was just computed may be too small again."""


class Disks:
    """Some disks, each a folder that only the path `folder` leads to; `close` unmounts them all."""

    def __init__(self, home: Path, count: int) -> None:
        """Create the mount points below ``home``. Errors: UsageError if nothing can be mounted here."""
        try:
            self._holder = Holder(
                "lab.chaos.disk_holder", ROOM_BYTES, [home / f"disk{index}" for index in range(count)]
            )
        except OSError as error:
            raise UsageError(
                f"no small file system can be mounted here ({error}): a full disk needs root, or a system that lets "
                "users make user namespaces; leave it out with --without full-disk,full-snapshots"
            ) from error
        self.folder = self._holder.folder
        self.close = self._holder.close

    def fill(self, index: int, *, left_bytes: int = 0) -> None:
        """Leave this much room and no more: further bytes fail with ENOSPC."""
        said = ""
        for _ in range(TRIES_MAX):
            found = os.statvfs(self.folder(index))
            used_bytes = (found.f_blocks - found.f_bfree) * found.f_frsize
            said = self._holder.ask(index, max(found.f_frsize, used_bytes + left_bytes))
            if said == DONE:
                return
        raise OSError(f"a disk could not be filled: {said}")

    def make_room(self, index: int) -> None:
        """Give the disk room again."""
        said = self._holder.ask(index, ROOM_BYTES)
        if said != DONE:
            raise OSError(f"a disk could not be enlarged: {said}")
