"""A process that holds ext4 file systems and cuts their power: ``python -m lab.chaos.loop_holder SIZE FOLDER...``.

Each is on a loop device over the sparse image file ``FOLDER.img`` of SIZE bytes, and mounted on FOLDER in a mount
namespace of its own. A loop device is released with its mount, and the mounts end with this process, which ends when
its standard input does. That needs root: no user namespace may mount ext4.

Standard input: a line ``INDEX...`` cuts the power of those file systems at once and mounts them again. The processes
that had files open there must be dead by then. Standard output: a line for each step, ``done`` or the error.

A cut is the ioctl ``EXT4_IOC_SHUTDOWN``: from then on the file system writes nothing to its device, neither dirty pages
nor its journal. The next mount replays what the journal had. What the device has taken without a flush stays.

Source: unshare(2), mount(8), mkfs.ext4(8), ext4's ``ext4_force_shutdown``; xfstests uses the same ioctl.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from lab.chaos.disk_holder import CLONE_NEWNS, call, keep_mounts_here, tell

EXT4_IOC_SHUTDOWN: Final = 0x8004587D
NO_LOG_FLUSH: Final = 2
MKFS: Final = ("mkfs.ext4", "-q", "-F", "-m", "0", "-N", "8192", "-J", "size=8", "-E", "nodiscard,lazy_itable_init=1")
"""Quick to make, small on disk, and nothing is kept for root."""
MOUNT: Final = ("mount", "-n", "-t", "ext4", "-o", "loop,noinit_itable,commit=300")
"""Nothing but a sync writes its journal for five minutes."""
SYSTEM_PATH: Final = "/usr/sbin:/sbin:/usr/bin:/bin"
UNMOUNT_TRIES: Final = 50
UNMOUNT_PAUSE_S: Final = 0.1


def main(words: Sequence[str]) -> None:
    """Mount, then cut until the input ends."""
    size, *folders = words
    tell(partial(_mount_all, int(size), folders))
    for line in sys.stdin:
        tell(partial(_cut, [folders[int(index)] for index in line.split()]))


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


if __name__ == "__main__":
    main(sys.argv[1:])
