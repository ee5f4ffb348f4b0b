"""What is measured: a quorum that writes a steady load, and whoever can set one up.

Owns the words that both peers are described in. Invariant: everything that is compared is asked of both in the same
way; only the latency is what each tells of itself, since only a leader knows when it was given a record. It refuses to
know processes and protocols.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pykraft.local.child import Children


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The load; ``records_per_s`` None means as much as it can."""

    nodes: int
    record_size_bytes: int
    records_per_s: int | None
    linger_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """The high watermark (exclusive) as the leader of ``epoch`` told it at this time (monotonic seconds)."""

    offset: int
    leader_id: int
    epoch: int
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Processor time since the start, in seconds, and the most memory that was resident at one time, in MiB."""

    cpu_s: float
    memory_mib: float


class Quorum(Protocol):
    """A fresh quorum under load, from `start` until its processes are killed by whoever keeps them."""

    def start(self) -> None:
        """Start all nodes."""
        ...

    def watermark(self) -> Watermark:
        """The present high watermark, once there is a leader. Errors: LocalQuorumError."""
        ...

    def usage(self) -> Mapping[int, Usage]:
        """What each node used up to now. Errors: LocalQuorumError for one that has ended."""
        ...

    def failure(self) -> str | None:
        """Why this quorum will write no more, if that is so."""
        ...

    def begin_window(self) -> None:
        """Latencies count from now on."""
        ...

    def latency_ms(self) -> Mapping[str, float]:
        """Percentiles (p50, p75, p99, p999) in milliseconds, as far as this quorum tells them."""
        ...

    def close(self) -> None:
        """Ask no more; the processes are ended by whoever keeps them."""
        ...


class Contender(Protocol):
    """Sets up quorums of one kind."""

    @property
    def name(self) -> str:
        """What it is called in results."""
        ...

    @property
    def breaks_when_overloaded(self) -> bool:
        """True when it must be given a rate that it can keep up with, which has to be searched for."""
        ...

    def quorum(self, children: Children, folder: Path, task: Task) -> Quorum:
        """A quorum whose files are in ``folder`` and whose processes are among ``children``; not started yet."""
        ...
