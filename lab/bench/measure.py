"""Measures one run: a fresh quorum warms up under its load, then a window is measured.

Invariant: for every contender the rate is the difference of two high watermarks divided by the time between the two
answers. Both warm-up and window are bounded by time and by bytes written: otherwise a fast quorum would fill a folder
in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from threading import Event
from typing import Final

from lab.bench.contender import LoadedQuorum, Task, Usage, Watermark
from pykraft.errors import LocalQuorumError

LOOK_INTERVAL_S: Final = 0.25
WARM_UP_SHARE: Final = 0.4
"""Largest share of a run's bytes that its warm-up may write."""
SUSTAINED_SHARE: Final = 0.97
"""A rate counts as sustained if this share of it was committed."""


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
