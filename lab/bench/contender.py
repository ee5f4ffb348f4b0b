"""Interfaces of what is measured: a quorum that writes a steady load, and the contender that sets one up.

Invariant: both peers are measured in the same way, except for latency: each reports its own, because only a leader
knows when it received a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pykraft.local.child import Children


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
