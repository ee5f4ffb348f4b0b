"""A fake quorum on a virtual clock: it commits what it is asked to, up to a limit, and breaks beyond another."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab.bench.measure import LoadedQuorum, MonotonicClock, Task, Usage, Watermark
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Children

FAST = 10_000_000


@dataclass(slots=True)
class VirtualTime:
    now_s: float = 100.0

    def pause(self, seconds: float) -> None:
        self.now_s += seconds

    @property
    def clock(self) -> MonotonicClock:
        return MonotonicClock(now_s=lambda: self.now_s, pause=self.pause)


@dataclass(slots=True, kw_only=True)
class FakeQuorum:
    """Leader 2 of nodes 1 to 3; a record costs the leader 4 microseconds and each follower 3."""

    time: VirtualTime
    task: Task
    most: int = FAST
    breaks: bool = False
    has_no_leader: bool = False
    leader_changes_at_s: float | None = None
    begun_s: float = 0.0
    window_s: float | None = None
    is_closed: bool = False

    def start(self) -> None:
        self.begun_s = self.time.now_s

    @property
    def committed(self) -> int:
        rate = self.most if self.task.records_per_s is None else min(self.task.records_per_s, self.most)
        return int((self.time.now_s - self.begun_s) * rate)

    def watermark(self) -> Watermark:
        if self.has_no_leader:
            raise LocalQuorumError("waited 60 s for a leader's high watermark")
        changed = self.leader_changes_at_s is not None and self.time.now_s - self.begun_s > self.leader_changes_at_s
        return Watermark(offset=self.committed, leader_id=3 if changed else 2, epoch=1 + changed, at_s=self.time.now_s)

    def usage(self) -> Mapping[int, Usage]:
        used_us = {1: 3, 2: 4, 3: 3}
        return {i: Usage(cpu_s=self.committed * us / 1e6, memory_mib=50 + i) for i, us in used_us.items()}

    def failure(self) -> str | None:
        asked = self.task.records_per_s
        return "its load thread died" if self.breaks and (asked is None or asked > self.most) else None

    def begin_window(self) -> None:
        self.window_s = self.time.now_s

    def latency_ms(self) -> Mapping[str, float]:
        return {"p50": 1.0}

    def batch_size_bytes(self) -> float | None:
        return 4_096.0

    def close(self) -> None:
        self.is_closed = True


@dataclass(slots=True, kw_only=True)
class FakeContender:
    name: str
    breaks_when_overloaded: bool = False
    most: int = FAST
    time: VirtualTime = field(default_factory=VirtualTime)
    tasks: list[Task] = field(default_factory=list)

    def quorum(self, children: Children, folder: Path, task: Task) -> LoadedQuorum:
        self.tasks.append(task)
        return FakeQuorum(time=self.time, task=task, most=self.most, breaks=self.breaks_when_overloaded)
