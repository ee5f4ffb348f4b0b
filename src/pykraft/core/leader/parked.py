"""Fetches that wait at the leader until there is news: Kafka's purgatory.

The leader answers a parked Fetch when the log grows beyond its offset, when the high watermark advances or when it
loses leadership, and with an empty answer when its wait time is over. While the high watermark advances often, an
advance waits for records that take it along, HIGH_WATERMARK_WAIT_MS at most (ADR 059). To a Fetch of committed records
only, an advance is the news, and new records are none. These are also answered at a pace (`Turns`): who asks more often
than its turn comes gets more records at a time (ADR 118). At most PARKED_FETCHES_MAX Fetches wait. In one step, at most
OTHERS_PER_STEP_MAX Fetches of observers are answered; the rest follow in the next steps, so that the event loop does
its other work in between. A Fetch whose connection is gone is dropped.

Source: KIP-595 §Fetch; KIP-1166; Kafka ``ThresholdPurgatory``.
"""

from dataclasses import dataclass
from itertools import islice

from pykraft.core.messages import FetchRequest


class Turns:
    """Lets ``count`` go in ``every_ms``; the time begins with the first of them."""

    def __init__(self, count: int, every_ms: int) -> None:
        self._count = count
        self._every_ms = every_ms
        self._since_ms = 0
        self._taken = 0

    @property
    def next_ms(self) -> int:
        """When the next may go (mono ms); 0, which is past, for now."""
        return self._since_ms + self._every_ms if self._taken >= self._count else 0

    def take(self, wanted: int, now_ms: int) -> int:
        """How many of so many may go now; they count as gone."""
        if now_ms >= self._since_ms + self._every_ms:
            self._since_ms, self._taken = now_ms, 0
        taken = min(wanted, self._count - self._taken)
        self._taken += taken
        return taken


PARKED_FETCHES_MAX = 1_000
"""Fetches that may wait at one time."""


OTHERS_PER_STEP_MAX = 16
"""Fetches of observers that are answered in one step."""

PACE_MS = 8
"""In so long, at most OTHERS_PER_STEP_MAX Fetches of committed records only are answered: 2,000 a second."""

HIGH_WATERMARK_WAIT_MS = 5
"""How long a high watermark that advances often waits for records that take it along."""


@dataclass(slots=True, kw_only=True)
class ParkedFetch:
    """A Fetch that waits until ``deadline_ms`` (mono). A voter's Fetch is never put off for others."""

    request_id: int
    listener: str
    request: FetchRequest
    deadline_ms: int
    is_voter: bool = False


class ParkedFetches:
    """All parked Fetches, oldest first."""

    def __init__(self) -> None:
        self._voters: dict[int, ParkedFetch] = {}
        self._others: dict[int, ParkedFetch] = {}
        self._committed_only: dict[int, ParkedFetch] = {}
        # Observers' Fetches to be answered in the next steps, and those among them that are answered at a pace.
        self._due: dict[int, ParkedFetch] = {}
        self._paced: dict[int, ParkedFetch] = {}
        self._turns = Turns(OTHERS_PER_STEP_MAX, PACE_MS)
        # May be too early once a Fetch was taken.
        self._next_deadline_ms: int | None = None

    @property
    def is_full(self) -> bool:
        """True when no other Fetch may be parked."""
        return sum(map(len, self._all())) >= PARKED_FETCHES_MAX

    def has_turn(self, request: FetchRequest, now_ms: int) -> bool:
        """Whether an observer's Fetch that has an answer may have it now, or must be parked as due behind others."""
        if not request.is_committed_only:
            return True
        return not self._paced and self._turns.take(1, now_ms) == 1

    def park(self, fetch: ParkedFetch, *, is_due: bool = False) -> None:
        """Park this Fetch; one that ``is_due`` waits only for its turn."""
        assert not self.is_full
        if fetch.is_voter:
            self._voters[fetch.request_id] = fetch
        elif fetch.request.is_committed_only:
            (self._paced if is_due else self._committed_only)[fetch.request_id] = fetch
        else:
            self._others[fetch.request_id] = fetch
        if self._next_deadline_ms is None or fetch.deadline_ms < self._next_deadline_ms:
            self._next_deadline_ms = fetch.deadline_ms

    def hasten(self, deadline_ms: int) -> None:
        """No parked Fetch waits any longer than until then."""
        for fetch in (*self._voters.values(), *self._others.values(), *self._committed_only.values()):
            fetch.deadline_ms = min(fetch.deadline_ms, deadline_ms)
            self._next_deadline_ms = min(self._next_deadline_ms or deadline_ms, deadline_ms)

    def drop(self, request_id: int) -> None:
        """Drop a Fetch whose requester is gone; ignored for an unknown request."""
        for fetches in self._all():
            fetches.pop(request_id, None)

    def has_from(self, voter_id: int) -> bool:
        """True while a Fetch of this voter waits."""
        replicas = (each.request.replica for each in self._voters.values())
        return any(replica is not None and replica.id == voter_id for replica in replicas)

    def take_oldest_other(self) -> ParkedFetch | None:
        """The observer's Fetch that has waited longest, to make room for a voter's."""
        for fetches in (self._due, self._paced, self._committed_only, self._others):
            for request_id in fetches:
                return fetches.pop(request_id)
        return None

    def take_woken(self, now_ms: int) -> list[ParkedFetch]:
        """There are new records: the Fetches to answer in this step. `take_expired` returns the rest later."""
        woken = list(self._voters.values())
        self._due.update(self._others)
        self._voters, self._others = {}, {}
        # Who still waits is not looked through for each append: the deadline may be too early.
        if not self._committed_only:
            self._next_deadline_ms = None
        return woken + self.take_due(now_ms)

    def wake_committed_only(self) -> None:
        """More is committed: those that want committed records only are due."""
        self._paced.update(self._committed_only)
        self._committed_only = {}

    def take_due(self, now_ms: int) -> list[ParkedFetch]:
        """Those that are due because of news, as many as one step may answer."""
        taken: list[ParkedFetch] = []
        if self._due:  # in few steps
            taken = _take(self._due, OTHERS_PER_STEP_MAX)
        if self._paced:
            taken += _take(self._paced, self._turns.take(len(self._paced), now_ms))
        return taken

    def take_all(self) -> list[ParkedFetch]:
        """All parked Fetches; none is parked any more."""
        fetches = [fetch for each in self._all() for fetch in each.values()]
        for each in self._all():
            each.clear()
        self._next_deadline_ms = None
        return fetches

    def take_expired(self, now_ms: int) -> list[ParkedFetch]:
        """Fetches whose wait time is over, or that are due because of earlier news; voters first."""
        taken: list[ParkedFetch] = []
        if self._next_deadline_ms is not None and self._next_deadline_ms <= now_ms:
            taken = [self._voters.pop(each.request_id) for each in _expired(self._voters, now_ms)]
            # The time of all may be over at once, because the high watermark advanced.
            for waiting, due in ((self._others, self._due), (self._committed_only, self._paced)):
                due.update((each.request_id, waiting.pop(each.request_id)) for each in _expired(waiting, now_ms))
            self._next_deadline_ms = _first_deadline_ms(self._voters, self._others, self._committed_only)
        return taken + self.take_due(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When to call `take_expired` next; 0, which is past, for as soon as possible."""
        if self._due:
            return 0
        if not self._paced:
            return self._next_deadline_ms
        turn_ms = self._turns.next_ms
        return turn_ms if self._next_deadline_ms is None else min(turn_ms, self._next_deadline_ms)

    def _all(self) -> tuple[dict[int, ParkedFetch], ...]:
        return self._voters, self._due, self._paced, self._others, self._committed_only


def _take(fetches: dict[int, ParkedFetch], count: int) -> list[ParkedFetch]:
    return [fetches.pop(request_id) for request_id in list(islice(fetches, count))]


def _first_deadline_ms(*waiting: dict[int, ParkedFetch]) -> int | None:
    return min((fetch.deadline_ms for fetches in waiting for fetch in fetches.values()), default=None)


def _expired(fetches: dict[int, ParkedFetch], now_ms: int) -> list[ParkedFetch]:
    return [fetch for fetch in fetches.values() if fetch.deadline_ms <= now_ms]
