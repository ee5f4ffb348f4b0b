"""The processes below one of ours, to kill some by pid: Spark's Java process, and the Python processes below it.

Invariant: only the very process that was seen is killed, because pid and start time together identify one process.
Linux only, because it reads ``/proc``.
"""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pykraft.local.child import wait_until


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process; ``begun`` is when, in ticks since the machine began."""

    pid: int
    parent: int
    begun: int
    command: str

    @property
    def is_java(self) -> bool:
        """True for Spark's own process, no longer the shell script that became it."""
        return self.command.split(" ", 1)[0].endswith("java")

    @property
    def is_alive(self) -> bool:
        """True while it runs."""
        found = _process_of(self.pid)
        return found is not None and found.begun == self.begun

    def kill(self) -> None:
        """SIGKILL; nothing happens when it has ended."""
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(self.pid)
            try:
                if self.is_alive:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)


def descendants(pid: int) -> list[Process]:
    """All below, each after its parent."""
    everything = [found for path in Path("/proc").glob("[0-9]*") if (found := _process_of(int(path.name))) is not None]
    below: list[Process] = []
    parents = {pid}
    while level := [process for process in everything if process.parent in parents]:
        below += level
        parents = {process.pid for process in level}
    return below


def wait_until_gone(processes: Iterable[Process], *, timeout_s: float = 60.0) -> None:
    """Wait until all have ended. Errors: LocalQuorumError when the time is over; then they are killed."""
    waiting = list(processes)
    try:
        wait_until(lambda: not any(each.is_alive for each in waiting), "processes of Spark to end", timeout_s=timeout_s)
    finally:
        for process in waiting:
            process.kill()


def _process_of(pid: int) -> Process | None:
    """None for one that has ended, reaped or not."""
    folder = Path("/proc") / str(pid)
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    if fields[0] in "ZX":
        return None
    return Process(pid=pid, parent=int(fields[1]), begun=int(fields[19]), command=command)
