"""Provides file systems whose power can be cut: ext4 on a loop device for each node.

`lab.chaos.loop_holder` is the process that holds them. Invariant: after a cut everything is there that was synced,
and what was not is lost as far as the kernel had not written it; `power_problem` tries that before a run relies on it.

Such a disk can be full, too: a filler file takes the room, by fallocate, so that no byte of it is written.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final

from lab.chaos.disk_holder import DONE
from lab.chaos.holder import Holder
from pykraft.local.keeper import temporary_folder

ROOM_BYTES: Final = 4 * 1024**3
"""Size of a disk; its image file is sparse."""
CONTROL_BYTES: Final = 64 * 1024**2
FILLER: Final = "filler"
TRIES_MAX: Final = 100
"""As for `lab.chaos.disks`: the node keeps writing while its disk is filled."""


class LoopDisks:
    """Some disks, each a folder that only the path `folder` leads to; `close` unmounts them and removes the images."""

    def __init__(self, home: Path, count: int, *, size_bytes: int = ROOM_BYTES) -> None:
        """Create images and mount points below ``home``. Errors: OSError if that cannot be done here."""
        folders = [home / f"disk{index}" for index in range(count)]
        self._images = [folder.with_suffix(".img") for folder in folders]
        try:
            self._holder = Holder("lab.chaos.loop_holder", size_bytes, folders)
        except OSError:
            self._remove_images()
            raise
        self.folder = self._holder.folder

    def cut(self, indexes: Iterable[int]) -> None:
        """Cut the power of these disks at once, and mount them again; nobody may have files open there."""
        said = self._holder.ask(*indexes)
        if said != DONE:
            raise OSError(f"a power cut failed: {said}")

    def fill(self, index: int, *, left_bytes: int = 0) -> None:
        """Leave this much room and no more: further bytes fail with ENOSPC, also after a power cut."""
        filler = os.open(self.folder(index) / FILLER, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            for _ in range(TRIES_MAX):
                found = os.statvfs(filler)
                surplus_bytes = found.f_bavail * found.f_frsize - left_bytes
                if surplus_bytes < found.f_frsize:
                    os.fsync(filler)  # a power cut must not make room
                    return
                try:
                    os.posix_fallocate(filler, os.fstat(filler).st_size, surplus_bytes)
                except OSError as error:
                    if error.errno != errno.ENOSPC:  # the node was quicker: what there was is allocated
                        raise
        finally:
            os.close(filler)
        raise OSError("a disk could not be filled")

    def make_room(self, index: int) -> None:
        """Give the disk room again."""
        (self.folder(index) / FILLER).unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount all; their content is lost."""
        self._holder.close()
        self._remove_images()

    def _remove_images(self) -> None:
        for image in self._images:
            image.unlink(missing_ok=True)


def power_problem(parent: Path) -> str | None:
    """Why power cuts cannot be injected with images below this folder; None if they can.

    A control: one file is synced and one is not, the power is cut, and only the first may be there.
    """
    with temporary_folder("pykraft-power-", parent) as home:
        try:
            with closing(LoopDisks(home, 1, size_bytes=CONTROL_BYTES)) as disks:
                return _control(disks)
        except OSError as error:
            return str(error)


def _control(disks: LoopDisks) -> str | None:
    folder = disks.folder(0)
    synced, unsynced = folder / "synced", folder / "unsynced"
    content = os.urandom(10_000)
    with synced.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unsynced.write_bytes(content)
    disks.cut([0])
    if not synced.exists() or synced.read_bytes() != content:
        return "a power cut loses what was synced"
    if unsynced.exists() and unsynced.read_bytes():
        return "a power cut keeps what was not synced"
    return None
