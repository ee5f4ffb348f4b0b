"""Measures one run: a fresh quorum warms up under its load, then a window is measured.

Here are the interfaces of what is measured (`LoadedQuorum`, and `Contender`, which sets one up), and what describes the
machine. Invariants: for every contender the rate is the difference of two high watermarks divided by the time between
the two answers. Latency alone is what each reports of itself, because only a leader knows when it received a record.
Both warm-up and window are bounded by time and by bytes written: otherwise a fast quorum would fill a folder in memory.

Source: Linux man-pages ``proc(5)``.
"""

import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean
from threading import Event
from typing import Final, Protocol

from pykraft import __version__
from pykraft.errors import LocalQuorumError, UsageError
from pykraft.local.child import Children
from pykraft.process.extras import kind_of_modules

CPUINFO = Path("/proc/cpuinfo")
PROC = Path("/proc")
LOOK_INTERVAL_S: Final = 0.25
WARM_UP_SHARE: Final = 0.4
"""Largest share of a run's bytes that its warm-up may write."""
SUSTAINED_SHARE: Final = 0.97
"""A rate counts as sustained if this share of it was committed."""


def machine() -> dict[str, str | int]:
    """Date (UTC), cores, processor, memory (MiB), kernel, Python, pykraft, event loop, compiled or plain modules."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "processor": _processor(),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": sys.version.split()[0],
        "pykraft": __version__,
        "loop": _loop(),
        "modules": kind_of_modules(),
    }


def _processor() -> str:
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _loop() -> str:
    try:
        return f"uvloop {version('uvloop')}"
    except PackageNotFoundError:
        return "asyncio"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The load; ``records_per_s`` None means unthrottled."""

    nodes: int
    record_size_bytes: int
    records_per_s: int | None
    linger_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """The high watermark (exclusive) that the leader of ``epoch`` reported at this time (monotonic seconds)."""

    offset: int
    leader_id: int
    epoch: int
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Processor time since the start in seconds, and peak resident memory in MiB."""

    cpu_s: float
    memory_mib: float


class LoadedQuorum(Protocol):
    """A fresh quorum under load, from `start` until its processes are killed by whoever holds them."""

    def start(self) -> None:
        """Start all nodes."""

    def watermark(self) -> Watermark:
        """The current high watermark, once there is a leader. Errors: LocalQuorumError."""

    def usage(self) -> Mapping[int, Usage]:
        """The usage of each node so far. Errors: LocalQuorumError if one has ended."""

    def failure(self) -> str | None:
        """Why this quorum will write no more records; None if it still works."""

    def begin_window(self) -> None:
        """Latencies count from now on."""

    def latency_ms(self) -> Mapping[str, float]:
        """Percentiles (p50, p75, p99, p999) in milliseconds, those that this quorum reports."""

    def batch_size_bytes(self) -> float | None:
        """The mean size in bytes of the batches that were acknowledged in the window; None if it is not reported."""

    def close(self) -> None:
        """Stop asking; whoever holds the processes ends them."""


class Contender(Protocol):
    """Sets up quorums of one kind."""

    name: str
    """Its name in results."""
    breaks_when_overloaded: bool
    """True if it needs a rate that it can sustain, which must be searched for."""

    def quorum(self, children: Children, folder: Path, task: Task) -> LoadedQuorum:
        """A quorum with its files in ``folder`` and its processes among ``children``; not started yet."""


def require_proc(proc: Path = PROC) -> None:
    """Errors: UsageError on a system without ``/proc``."""
    if not (proc / "self" / "status").exists():
        raise UsageError(f"there is no {proc}: CPU and memory can only be measured on Linux")


def usage_of(pid: int, name: str, proc: Path = PROC) -> Usage:
    """User and system time of all threads, and peak resident memory. Errors: LocalQuorumError if it has ended."""
    try:
        stat = (proc / str(pid) / "stat").read_text()
        status = (proc / str(pid) / "status").read_text()
    except OSError as error:
        raise LocalQuorumError(f"{name} has ended") from error
    fields = stat.rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    peak = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    if not peak:
        raise LocalQuorumError(f"{name} has ended")  # a zombie has no memory
    return Usage(cpu_s=ticks / os.sysconf("SC_CLK_TCK"), memory_mib=int(peak[0]) / 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class MonotonicClock:
    """Monotonic seconds, and sleeping."""

    now_s: Callable[[], float]
    pause: Callable[[float], object]


REAL_CLOCK = MonotonicClock(now_s=time.monotonic, pause=Event().wait)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """How long a run takes, in seconds, and how many bytes all its logs together may take."""

    warm_up_s: float
    window_s: float
    size_bytes_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The measurement. CPU in cores, latency in ms, memory is the largest of all nodes; a failed run has no figures."""

    records_per_s: float = 0.0
    window_s: float = 0.0
    latency_ms: Mapping[str, float]
    leader_cpu: float = 0.0
    follower_cpu: float = 0.0
    cpu_us_per_record: float = 0.0
    memory_mib: float = 0.0
    batch_size_bytes: float | None = None
    failure: str | None = None

    def sustains(self, records_per_s: int) -> bool:
        """True if this rate was requested and committed."""
        return self.failure is None and self.records_per_s >= SUSTAINED_SHARE * records_per_s


def measure(quorum: LoadedQuorum, task: Task, limits: RunLimits, clock: MonotonicClock = REAL_CLOCK) -> Run:
    """Start a quorum, let it warm up, and measure it; whoever holds its processes ends it.

    A failure of the quorum is part of the result. Errors: anything else.
    """
    quorum.start()
    try:
        begin = quorum.watermark()
        record_bytes = task.record_size_bytes * task.nodes
        warm_up_records = WARM_UP_SHARE * limits.size_bytes_max / record_bytes
        warm = _watch(quorum, begin, limits.warm_up_s, int(warm_up_records), clock)
        quorum.begin_window()
        before = quorum.usage()
        first = quorum.watermark()
        _watch(quorum, first, limits.window_s, limits.size_bytes_max // record_bytes - warm.offset, clock)
        last = quorum.watermark()
        after = quorum.usage()
        if (first.leader_id, first.epoch) != (last.leader_id, last.epoch):
            then, now = (f"{each.leader_id} in epoch {each.epoch}" for each in (first, last))
            return Run(latency_ms={}, failure=f"the leader changed: node {then}, then node {now}")
        result = _result(first, last, before, after, quorum.latency_ms())
        return result if result.failure else replace(result, batch_size_bytes=quorum.batch_size_bytes())
    except LocalQuorumError as error:
        return Run(latency_ms={}, failure=quorum.failure() or str(error))
    finally:
        quorum.close()


def _watch(
    quorum: LoadedQuorum, begin: Watermark, seconds: float, records_max: int, clock: MonotonicClock
) -> Watermark:
    """Wait until the time is over or this many records are committed. Errors: LocalQuorumError if no more will be."""
    end_s = clock.now_s() + seconds
    at = begin
    while (left_s := end_s - clock.now_s()) > 0 and at.offset - begin.offset < records_max:
        clock.pause(min(LOOK_INTERVAL_S, left_s))
        failure = quorum.failure()
        if failure is not None:
            raise LocalQuorumError(failure)
        at = quorum.watermark()
    return at


def _result(
    first: Watermark,
    last: Watermark,
    before: Mapping[int, Usage],
    after: Mapping[int, Usage],
    latency_ms: Mapping[str, float],
) -> Run:
    window_s = last.at_s - first.at_s
    records = last.offset - first.offset
    if records <= 0:
        return Run(latency_ms={}, failure=f"nothing was committed within {window_s:.1f} s")
    used_s = {node_id: after[node_id].cpu_s - before[node_id].cpu_s for node_id in after}
    followers = [used_s[node_id] for node_id in used_s if node_id != last.leader_id]
    return Run(
        records_per_s=records / window_s,
        window_s=window_s,
        latency_ms=latency_ms,
        leader_cpu=used_s[last.leader_id] / window_s,
        follower_cpu=fmean(followers) / window_s if followers else 0.0,
        cpu_us_per_record=sum(used_s.values()) / records * 1e6,
        memory_mib=max(usage.memory_mib for usage in after.values()),
    )
