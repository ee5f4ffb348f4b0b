"""Appends the same bytes to a file again and again, and syncs each time: the process of `lab.bench.appenders`.

    python -m lab.bench.append_loop FILE GROUP_SIZE_BYTES

Invariant: at most one group is written and not synced. It ends by being killed.

Source: POSIX fdatasync.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import count


def append_for_ever(path: str, group_size_bytes: int, groups: Iterator[int]) -> None:
    """Append a group and sync it, once for each of ``groups``."""
    group = os.urandom(group_size_bytes)
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        for _ in groups:
            written = os.write(descriptor, group)
            while written < group_size_bytes:  # the system writes at most 2 GiB at a time, and less when the disk fills
                written += os.write(descriptor, group[written:])
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    append_for_ever(sys.argv[1], int(sys.argv[2]), count())
