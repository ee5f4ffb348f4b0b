"""The limit of a machine: as many processes as a quorum has voters only append bytes to files and sync them.

They send nothing, check nothing and agree on nothing, so no replicated log on the same disk can write more. Each
process is

    python -m lab.benchmarks.suite.appenders FILE GROUP_SIZE_BYTES

and ends by being killed. Invariant: every byte that counts is in a file, and all but the last group of each file are
synced.

Source: POSIX fdatasync.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Final

from lab.bench.measure import REAL_CLOCK, LoadedQuorum, Task, Usage, Watermark, usage_of
from pykraft.local.child import Child, Children, wait_until

GROUP_SIZE_BYTES: Final = 1024 * 1024
"""Until a run told its own: a full batch of a leader of ours."""
FIRST_ID: Final = 1
PROGRAM: Final = "lab.benchmarks.suite.appenders"


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


class AppendingProcesses:
    """See `lab.bench.measure.LoadedQuorum`; its high watermark is the mean of what each process has appended."""

    def __init__(self, children: Children, folder: Path, task: Task, group_size_bytes: int) -> None:
        self._start_child = children.start
        self._folder = folder
        self._record_size_bytes = task.record_size_bytes
        self._group_size_bytes = group_size_bytes
        self._paths = {node_id: folder / f"{node_id}.log" for node_id in range(FIRST_ID, FIRST_ID + task.nodes)}
        self._children: dict[int, Child] = {}

    def start(self) -> None:
        for node_id, path in self._paths.items():
            self._children[node_id] = self._start_child(
                f"appender {node_id}",
                [sys.executable, "-m", PROGRAM, str(path), str(self._group_size_bytes)],
                self._folder / f"{node_id}.out",
            )

    def watermark(self) -> Watermark:
        """See `LoadedQuorum`; waits until all have begun."""
        paths = self._paths.values()
        wait_until(lambda: all(path.exists() for path in paths), "appenders to begin", alive=self.processes)
        at_s = REAL_CLOCK.now_s()
        size_bytes = sum(path.stat().st_size for path in self._paths.values())
        offset = size_bytes // len(self._paths) // self._record_size_bytes
        return Watermark(offset=offset, leader_id=FIRST_ID, epoch=0, at_s=at_s)

    def usage(self) -> Mapping[int, Usage]:
        return {node_id: usage_of(child.pid, child.name) for node_id, child in self._children.items()}

    @property
    def processes(self) -> list[Child]:
        return list(self._children.values())

    def failure(self) -> str | None:
        ended = [child for child in self.processes if child.status is not None]
        return f"{ended[0].name} ended with {ended[0].status}: {ended[0].log().strip()[-300:]}" if ended else None

    def begin_window(self) -> None:
        """See `LoadedQuorum`; nothing is timed."""

    def latency_ms(self) -> Mapping[str, float]:
        """See `LoadedQuorum`; nothing is timed."""
        return {}

    def batch_size_bytes(self) -> float | None:
        return self._group_size_bytes

    def close(self) -> None:
        """See `LoadedQuorum`; there is no connection."""


class Appenders:
    """See `lab.bench.measure.Contender`."""

    name = "appenders"
    breaks_when_overloaded = False

    def __init__(self, group_size_bytes: int = GROUP_SIZE_BYTES) -> None:
        self.group_size_bytes = group_size_bytes

    def quorum(self, children: Children, folder: Path, task: Task) -> LoadedQuorum:
        return AppendingProcesses(children, folder, task, self.group_size_bytes)


if __name__ == "__main__":
    append_for_ever(sys.argv[1], int(sys.argv[2]), count())
