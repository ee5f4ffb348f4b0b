"""File systems that can be full: a tmpfs for each such node, resized while the node runs.

A full disk gives the node a real ENOSPC from the kernel; nothing in the node knows. Another process holds the mounts,
in a mount namespace of its own:

    python -m lab.chaos.disks SIZE FOLDER...

It mounts a tmpfs of SIZE bytes on each folder; root may, and so may any user where the system allows user namespaces,
and where neither is true that is an error. Other processes reach the file systems through ``/proc/<pid>/root``. Each
line ``INDEX SIZE`` on its standard input resizes one, and is answered by one line, ``done`` or the error. Making a
tmpfs smaller than its content is an error.

Invariant: such a process ends when its standard input does, and its mounts with it; so nothing stays mounted, however
our process ends. The content disappears with them, so the caller copies what must survive.

Source: unshare(2), mount(2), user_namespaces(7), tmpfs(5).
"""

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from pykraft.errors import UsageError

END_TIMEOUT_S: Final = 20.0
CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUSER: Final = 0x10000000
MS_REMOUNT: Final = 32
MS_REC: Final = 16_384
MS_PRIVATE: Final = 1 << 18
DONE: Final = "done"
ROOM_BYTES: Final = 4 * 1024**3
"""Size of a disk with room; a tmpfs only takes as much memory as is written."""
TRIES_MAX: Final = 100
"""The node keeps writing while its disk is filled, so the size that was just computed may be too small again."""


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


def main(words: Sequence[str]) -> None:
    """Mount, then resize until the input ends."""
    size, *folders = words
    answer_after(partial(_mount_all, int(size), folders))
    for line in sys.stdin:
        index, new_size = line.split()
        folder = folders[int(index)]
        answer_after(partial(_mount, folder, int(new_size), MS_REMOUNT))


def _mount_all(size_bytes: int, folders: Sequence[str]) -> None:
    _enter_namespaces()
    keep_mounts_here()
    for folder in folders:
        _mount(folder, size_bytes, 0)


def _enter_namespaces() -> None:
    """Enter a mount namespace; if that needs root, do it inside a user namespace that keeps our ids."""
    try:
        call("unshare", CLONE_NEWNS)
    except PermissionError:
        user, group = os.getuid(), os.getgid()
        call("unshare", CLONE_NEWUSER | CLONE_NEWNS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def keep_mounts_here() -> None:
    """Do not propagate our mounts out of the mount namespace that we are in now."""
    call("mount", b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None)


def _mount(folder: str, size_bytes: int, flags: int) -> None:
    options = f"size={size_bytes},mode=0700".encode()
    call("mount", b"pykraft-chaos", os.fsencode(folder), b"tmpfs", ctypes.c_ulong(flags), options)


def call(name: str, *arguments: object) -> None:
    """Call a function of the C library. Errors: OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    if library[name](*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def answer_after(step: Callable[[], None]) -> None:
    """Do one step, and print ``done`` or the error."""
    try:
        step()
    except OSError as error:
        print(error, flush=True)  # noqa: T201 - the answer to whoever started this process
    else:
        print(DONE, flush=True)  # noqa: T201 - as above


class Disks:
    """Some disks, each a folder that only the path `folder` leads to; `close` unmounts them all."""

    def __init__(self, home: Path, count: int) -> None:
        """Create the mount points below ``home``. Errors: UsageError if nothing can be mounted here."""
        try:
            self._holder = Holder("lab.chaos.disks", ROOM_BYTES, [home / f"disk{index}" for index in range(count)])
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
        said = self._holder.ask(index, ROOM_BYTES)
        if said != DONE:
            raise OSError(f"a disk could not be enlarged: {said}")


if __name__ == "__main__":
    main(sys.argv[1:])
