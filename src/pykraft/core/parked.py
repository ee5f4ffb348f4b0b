"""Fetches that wait at the leader for something to tell: Kafka's purgatory.

A parked Fetch is answered when the log grows past its offset, when the high watermark moves, when
leadership ends, or empty when its time is over. Bounded; one more than the bound is answered at once.

Source: KIP-595 §Fetch; KIP-1166; Kafka ``ThresholdPurgatory``.
"""

from __future__ import annotations

from dataclasses import dataclass

from pykraft.core.messages import FetchRequest

PARKED_FETCHES_MAX = 1_000
"""Fetches that may wait at one time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedFetch:
    """A request that waits until ``deadline_ms`` (mono)."""

    request_id: int
    listener: str
    request: FetchRequest
    deadline_ms: int


class ParkedFetches:
    """All waiting Fetches, oldest first."""

    def __init__(self) -> None:
        self._fetches: list[ParkedFetch] = []

    @property
    def is_full(self) -> bool:
        """True when no more may wait."""
        return len(self._fetches) >= PARKED_FETCHES_MAX

    def park(self, fetch: ParkedFetch) -> None:
        """Let this one wait."""
        assert not self.is_full
        self._fetches.append(fetch)

    def take_all(self) -> list[ParkedFetch]:
        """Everything that waits; nothing waits any more."""
        fetches, self._fetches = self._fetches, []
        return fetches

    def take_expired(self, now_ms: int) -> list[ParkedFetch]:
        """Those whose time is over."""
        if all(fetch.deadline_ms > now_ms for fetch in self._fetches):
            return []
        expired = [fetch for fetch in self._fetches if fetch.deadline_ms <= now_ms]
        self._fetches = [fetch for fetch in self._fetches if fetch.deadline_ms > now_ms]
        return expired

    def next_deadline_ms(self) -> int | None:
        """When the next one's time is over."""
        return min((fetch.deadline_ms for fetch in self._fetches), default=None)
