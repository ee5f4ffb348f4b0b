"""A process that holds small file systems: ``python -m lab.chaos.disk_holder SIZE FOLDER...``.

It mounts a tmpfs of SIZE bytes on each folder, in a mount namespace of its own, so that no other process sees a change.
Without root it first enters a user namespace, in which it may mount. Other processes reach the file systems through
``/proc/<pid>/root``. They disappear when this process ends, and it ends when its standard input does.

Standard input: a line ``INDEX SIZE`` resizes the file system of that folder. Standard output: a line for each step,
``done`` or the error. Making a tmpfs smaller than its content is an error.

Source: unshare(2), mount(2), user_namespaces(7), tmpfs(5).
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUSER: Final = 0x10000000
MS_REMOUNT: Final = 32
MS_REC: Final = 16_384
MS_PRIVATE: Final = 1 << 18
DONE: Final = "done"


def main(words: Sequence[str]) -> None:
    """Mount, then resize until the input ends."""
    size, *folders = words
    tell(partial(_mount_all, int(size), folders))
    for line in sys.stdin:
        index, new_size = line.split()
        folder = folders[int(index)]
        tell(partial(_mount, folder, int(new_size), MS_REMOUNT))


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


def tell(step: Callable[[], None]) -> None:
    """Do one step, and print ``done`` or the error."""
    try:
        step()
    except OSError as error:
        print(error, flush=True)  # noqa: T201 - the answer to whoever started this process
    else:
        print(DONE, flush=True)  # noqa: T201 - as above


if __name__ == "__main__":
    main(sys.argv[1:])
