"""Processor time and memory of a process and all below it, Java and Python apart.

Processes come and go, and Spark's Python daemons do not wait for theirs, so a thread looks at all of them again and
again. Invariant: the time of a process that ended is what it had at the last look before, at most `LOOK_S` earlier.

To ask the kernel which pages processes share takes it milliseconds for each process, in which that one waits. So memory
is looked at only in the end, where Spark's processes wait for their next task; what a process had more at its peak is
added.

Source: Linux man-pages ``proc(5)``.
"""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

LOOK_S = 0.2
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_TASK = b"daemon\0pyspark.worker\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """Seconds of processor time, and the most memory in MiB: of Java, of tasks, and of all other Python processes.

    Tasks and others are those that are there in the end, each at its peak. Pages that processes share count once.
    """

    java_s: float
    python_s: float
    java_mib: float
    tasks_mib: float
    other_mib: float


class ProcessTree:
    """Watches a process and its descendants, between `begin` and `end`."""

    def __init__(self, pid: int) -> None:
        self._root = pid
        self._before: dict[int, float] = {}
        self._seen: dict[int, tuple[bool, float]] = {}
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start to watch; forget the peaks of memory."""
        self._seen = {}
        for pid in below(self._root):
            with suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5")  # its peak is what it has now
        self._sample()
        self._before = {pid: used_s for pid, (_, used_s) in self._seen.items()}
        self._is_over.clear()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> Used:
        """Stop to watch; what was used since `begin`."""
        assert self._thread is not None
        self._is_over.set()
        self._thread.join()
        self._sample()
        java_s = python_s = 0.0
        java_mib = tasks_mib = other_mib = 0.0
        for pid, (is_java, used_s) in self._seen.items():
            own_s = used_s - self._before.get(pid, 0.0)
            java_s, python_s = (java_s + own_s, python_s) if is_java else (java_s, python_s + own_s)
            peak_mib = memory_mib(pid, "status", "VmHWM")
            if is_java:
                java_mib = max(java_mib, peak_mib)
                continue
            own_mib = memory_mib(pid, "smaps_rollup", "Pss") + peak_mib - memory_mib(pid, "status", "VmRSS")
            is_task = _TASK in content(pid, "cmdline")
            tasks_mib, other_mib = (tasks_mib + own_mib, other_mib) if is_task else (tasks_mib, other_mib + own_mib)
        return Used(java_s=java_s, python_s=python_s, java_mib=java_mib, tasks_mib=tasks_mib, other_mib=other_mib)

    def _watch(self) -> None:
        while not self._is_over.wait(LOOK_S):
            self._sample()

    def _sample(self) -> None:
        for pid in below(self._root):
            command, stat = content(pid, "cmdline"), content(pid, "stat").decode(errors="replace")
            if not stat:
                continue
            fields = stat.rpartition(")")[2].split()
            is_java = command.partition(b"\0")[0].endswith(b"java")
            self._seen[pid] = (is_java, (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND)


def below(pid: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    level = [pid]
    while level:
        yield from level
        level = [child for each in level for child in children.get(each, [])]


def content(pid: int, name: str) -> bytes:
    """The content of a process's file; empty when the process has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def memory_mib(pid: int, file: str, name: str) -> float:
    """One of the kernel's figures for a process, in MiB."""
    found = re.search(rf"^{name}:\s+(\d+) kB", content(pid, file).decode(errors="replace"), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0
