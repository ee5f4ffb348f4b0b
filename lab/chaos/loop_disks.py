"""File systems whose power can be cut: ext4 on a loop device for each node.

After a cut everything is there that was synced, and what was not is lost as far as the kernel had not written it;
`power_problem` tries that before a run relies on it, and `left_out` names what cannot be injected here. Such a disk can
be full, too: a filler file takes the room, by fallocate, so that no byte of it is written. As in `lab.chaos.disks`
another process holds the mounts:

    python -m lab.chaos.loop_disks SIZE FOLDER...

Each file system is on a loop device over the sparse image file ``FOLDER.img`` of SIZE bytes. A loop device is released
with its mount. That needs root: no user namespace may mount ext4. A line ``INDEX...`` on standard input cuts the power
of those file systems at once and mounts them again; the processes that had files open there must be dead by then.

A cut is the ioctl ``EXT4_IOC_SHUTDOWN``: from then on the file system writes nothing to its device, neither dirty pages
nor its journal. The next mount replays what the journal had. What the device has taken without a flush stays.

Source: unshare(2), mount(8), mkfs.ext4(8), ext4's ``ext4_force_shutdown``; xfstests uses the same ioctl.
"""

import errno
import fcntl
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from lab.chaos.disks import CLONE_NEWNS, DONE, Holder, answer_after, call, keep_mounts_here
from lab.chaos.plan import POWER, FaultKind
from pykraft.local.child import temporary_folder

EXT4_IOC_SHUTDOWN: Final = 0x8004587D
NO_LOG_FLUSH: Final = 2
MKFS: Final = ("mkfs.ext4", "-q", "-F", "-m", "0", "-N", "8192", "-J", "size=8", "-E", "nodiscard,lazy_itable_init=1")
"""Quick to make, small on disk, and nothing is kept for root."""
MOUNT: Final = ("mount", "-n", "-t", "ext4", "-o", "loop,noinit_itable,commit=300")
"""Nothing but a sync writes its journal for five minutes."""
SYSTEM_PATH: Final = "/usr/sbin:/sbin:/usr/bin:/bin"
UNMOUNT_TRIES: Final = 50
UNMOUNT_PAUSE_S: Final = 0.1
ROOM_BYTES: Final = 4 * 1024**3
"""Size of a disk; its image file is sparse."""
CONTROL_BYTES: Final = 64 * 1024**2
FILLER: Final = "filler"
TRIES_MAX: Final = 100
"""As for `lab.chaos.disks`: the node keeps writing while its disk is filled."""


def main(words: Sequence[str]) -> None:
    """Mount, then cut until the input ends."""
    size, *folders = words
    answer_after(partial(_mount_all, int(size), folders))
    for line in sys.stdin:
        answer_after(partial(_cut, [folders[int(index)] for index in line.split()]))


def _mount_all(size_bytes: int, folders: Sequence[str]) -> None:
    call("unshare", CLONE_NEWNS)
    keep_mounts_here()
    for folder in folders:
        with Path(f"{folder}.img").open("xb") as image:
            image.truncate(size_bytes)
        _run(*MKFS, f"{folder}.img")
        _mount(folder)


def _cut(folders: Sequence[str]) -> None:
    for folder in folders:
        opened = os.open(folder, os.O_RDONLY)
        try:
            fcntl.ioctl(opened, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(opened)
    for folder in folders:
        _unmount(folder)
        _mount(folder)


def _mount(folder: str) -> None:
    _run(*MOUNT, f"{folder}.img", folder)


def _unmount(folder: str) -> None:
    """Unmount; somebody else may look into the file system at this moment, such as a virus scanner."""
    for left in reversed(range(UNMOUNT_TRIES)):
        try:
            _run("umount", "-n", folder)
        except OSError:
            if not left:
                raise
            time.sleep(UNMOUNT_PAUSE_S)
        else:
            return


def _run(*command: str) -> None:
    """Errors: OSError with the first line that the command prints."""
    path = f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"
    done = subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=False)
    if done.returncode:
        said = next((line for line in done.stderr.splitlines() if line), f"status {done.returncode}")
        raise OSError(f"{command[0]}: {said.removeprefix(f'{command[0]}: ')}")


class LoopDisks:
    """Some disks, each a folder that only the path `folder` leads to; `close` unmounts them and removes the images."""

    def __init__(self, home: Path, count: int, *, size_bytes: int = ROOM_BYTES) -> None:
        """Create images and mount points below ``home``. Errors: OSError if that cannot be done here."""
        folders = [home / f"disk{index}" for index in range(count)]
        self._images = [folder.with_suffix(".img") for folder in folders]
        try:
            self._holder = Holder("lab.chaos.loop_disks", size_bytes, folders)
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


def left_out(kinds: Sequence[FaultKind], folder: Path, *, is_dynamic: bool) -> Mapping[FaultKind, str]:
    """Those of the kinds that cannot be injected into nodes in this folder, each with the reason."""
    found: dict[FaultKind, str] = {}
    if wanted := [kind for kind in kinds if kind in POWER]:
        problem = power_problem(folder)
        if problem is not None:
            found.update(dict.fromkeys(wanted, f"power cuts need root and loop devices ({problem})"))
    if is_dynamic and FaultKind.TWIN in kinds:
        found[FaultKind.TWIN] = "the directory id is part of a dynamic voter, so a second process is another replica"
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
