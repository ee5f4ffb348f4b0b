"""Fetches that wait at the leader for something to tell: Kafka's purgatory.

A parked Fetch is answered when the log grows past its offset, when the high watermark moves, when
leadership ends, or empty when its time is over. Bounded are how many wait, and how many that are no voter's are
answered in one step: the others follow in the next steps, with the loop's other work in between. A Fetch whose
requester is gone waits no more.

Source: KIP-595 §Fetch; KIP-1166; Kafka ``ThresholdPurgatory``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from pykraft.core.messages import FetchRequest

PARKED_FETCHES_MAX = 1_000
"""Fetches that may wait at one time."""


OTHERS_PER_STEP_MAX = 100
"""Fetches of no voter that are answered in one step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedFetch:
    """A request that waits until ``deadline_ms`` (mono); that of a voter is never put off for others."""

    request_id: int
    listener: str
    request: FetchRequest
    deadline_ms: int
    is_voter: bool = False


class ParkedFetches:
    """All waiting Fetches, oldest first."""

    def __init__(self) -> None:
        self._voters: dict[int, ParkedFetch] = {}
        self._others: dict[int, ParkedFetch] = {}
        self._due: dict[int, ParkedFetch] = {}  # others that are to be answered in the next steps
        self._next_deadline_ms: int | None = None  # may be too early once a fetch was taken

    @property
    def is_full(self) -> bool:
        """True when no more may wait."""
        return len(self._voters) + len(self._others) + len(self._due) >= PARKED_FETCHES_MAX

    def park(self, fetch: ParkedFetch) -> None:
        """Let this one wait."""
        assert not self.is_full
        (self._voters if fetch.is_voter else self._others)[fetch.request_id] = fetch
        if self._next_deadline_ms is None or fetch.deadline_ms < self._next_deadline_ms:
            self._next_deadline_ms = fetch.deadline_ms

    def drop(self, request_id: int) -> None:
        """Nobody waits for this answer any more; ignored for a request that is not here."""
        for fetches in (self._voters, self._others, self._due):
            fetches.pop(request_id, None)

    def take_oldest_other(self) -> ParkedFetch | None:
        """The one that is no voter's and has waited longest, to make room for a voter's."""
        for fetches in (self._due, self._others):
            for request_id in fetches:
                return fetches.pop(request_id)
        return None

    def take_woken(self) -> list[ParkedFetch]:
        """There is news: those to answer in this step. The rest is due, see `take_expired`."""
        woken = list(self._voters.values())
        self._due.update(self._others)
        self._voters, self._others, self._next_deadline_ms = {}, {}, None
        return woken + self._take_due()

    def take_all(self) -> list[ParkedFetch]:
        """Everything that waits; nothing waits any more."""
        fetches = [*self._voters.values(), *self._due.values(), *self._others.values()]
        self._voters, self._others, self._due, self._next_deadline_ms = {}, {}, {}, None
        return fetches

    def take_expired(self, now_ms: int) -> list[ParkedFetch]:
        """Those whose time is over, or that are due since there was news."""
        taken = self._take_due()
        if self._next_deadline_ms is not None and self._next_deadline_ms <= now_ms:
            waiting = [*self._voters.values(), *self._others.values()]
            expired = [fetch for fetch in waiting if fetch.deadline_ms <= now_ms]
            for fetch in expired:
                self.drop(fetch.request_id)
            self._next_deadline_ms = min(
                (fetch.deadline_ms for fetch in waiting if fetch.deadline_ms > now_ms), default=None
            )
            taken += expired
        return taken

    def next_deadline_ms(self) -> int | None:
        """When `take_expired` should be asked next; 0, which is past, for as soon as possible."""
        return 0 if self._due else self._next_deadline_ms

    def _take_due(self) -> list[ParkedFetch]:
        return [self._due.pop(request_id) for request_id in list(islice(self._due, OTHERS_PER_STEP_MAX))]
