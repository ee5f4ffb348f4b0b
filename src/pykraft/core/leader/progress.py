"""What a leader knows of every replica that fetches from it.

A Fetch at offset f acknowledges the whole batches below f (`LogView.whole_batches_below`): a follower fetches only
from offsets below which its log is durable. Voters are kept for the whole epoch. Observers are kept by replica key and
dropped after five minutes without a Fetch. A replica without an id is not recorded.

A static voter set has no directory ids. The first one that fetches as such a voter is this voter's for the whole epoch;
a replica with another one is an observer: two processes have the same node id, and what one of them acknowledges is not
on the other's disk.

Source: KIP-595 §Fetch, KIP-836 (timestamps); Kafka ``LeaderState.ReplicaState``.
"""

from dataclasses import dataclass

from pykraft.core.answer_pace import AnswerPace
from pykraft.types import Instant, NodeId, Offset, ReplicaKey, Uuid, VoterSet

OBSERVER_SESSION_MS = 300_000
OBSERVERS_MAX = 1_000
"""Observers remembered at one time, as many as connections; a new one displaces the longest silent one."""


ANSWER_SHARE_MIN = 64
"""An answer is never limited to less than this fraction (1/64) of the requested bytes."""
FIRST_ANSWER_SIZE_BYTES_MAX = 1_048_576
"""The first answer, of which nobody knows yet how long it takes; quick ones double the next."""


@dataclass(slots=True, kw_only=True)
class AnswerUnderWay:
    """The newest answer with record or snapshot bytes, until the receiver's next request."""

    request_id: int
    size_bytes_max: int
    pace: AnswerPace


@dataclass(slots=True, kw_only=True)
class ReplicaProgress:
    """One replica as seen by its fetches. Wall clock times are -1, mono times None, until known.

    ``carried_bytes`` limits the next answer, until quick ones have shown what the link carries; None for no limit.
    """

    key: ReplicaKey
    directory_id: Uuid | None = None
    """Of a voter whose key has none: the directory id of its first Fetch in this epoch."""
    end_offset: Offset | None = None
    """Its newest fetch offset; ``leader_end_offset`` is the leader's log end then."""
    acknowledged_end_offset: int = 0
    """The highest offset that it ever fetched at in this epoch."""
    fetched_mono_ms: int | None = None
    fetched_wall_ms: int = -1
    caught_up_wall_ms: int = -1
    leader_end_offset: Offset | None = None
    answer: AnswerUnderWay | None = None
    carried_bytes: int | None = FIRST_ANSWER_SIZE_BYTES_MAX

    def answers(self, request_id: int, asked_bytes: int, now_ms: int, *, timeout_ms: int, floor_bytes: int) -> int:
        """Note an answer that leaves now; returns how many of the requested bytes it may bring."""
        size_bytes_max = asked_bytes if self.carried_bytes is None else min(asked_bytes, self.carried_bytes)
        pace = AnswerPace(begun_ms=now_ms, window_ms=timeout_ms, floor_bytes=floor_bytes)
        self.answer = AnswerUnderWay(request_id=request_id, size_bytes_max=size_bytes_max, pace=pace)
        return size_bytes_max

    def asks_again(self, asked_bytes: int, now_ms: int) -> None:
        """The next request arrived: adapt the answer size to what the link, and the disk behind it, can carry."""
        answer, self.answer = self.answer, None
        if answer is None:
            return
        took_ms, timeout_ms = now_ms - answer.pace.begun_ms, answer.pace.window_ms
        # Longer than half a timeout, perhaps because the receiver dropped the answer: halve the size. Less than an
        # eighth of a timeout: double it.
        if took_ms * 2 > timeout_ms:
            self.carried_bytes = max(1, asked_bytes // ANSWER_SHARE_MIN, answer.size_bytes_max // 2)
        elif self.carried_bytes is not None and took_ms * 8 < timeout_ms:
            self.carried_bytes = None if self.carried_bytes * 2 >= asked_bytes else self.carried_bytes * 2

    def fetched(self, fetch_offset: Offset, leader_end_offset: Offset, now: Instant) -> None:
        """Note a valid Fetch at this offset while the leader's log ended at ``leader_end_offset``."""
        if fetch_offset >= leader_end_offset:
            self.caught_up_wall_ms = max(self.caught_up_wall_ms, now.wall_ms)
        # It now has all that the leader had at its previous Fetch, so it was caught up at that time (KIP-836).
        elif self.leader_end_offset is not None and 0 < self.leader_end_offset <= fetch_offset:
            self.caught_up_wall_ms = max(self.caught_up_wall_ms, self.fetched_wall_ms)
        self.leader_end_offset = leader_end_offset
        self.fetched_wall_ms = max(self.fetched_wall_ms, now.wall_ms)
        self.fetched_mono_ms = now.mono_ms
        self.end_offset = fetch_offset
        self.acknowledged_end_offset = max(self.acknowledged_end_offset, fetch_offset)

    def may_be(self, key: ReplicaKey) -> bool:
        """True when this entry is the one of a replica with this key."""
        return self.key.matches(key) and (self.directory_id is None or key.directory_id in (None, self.directory_id))

    def is_silent_for(self, time_ms: int, now: Instant) -> bool:
        """True when no Fetch arrived for at least this long, or none at all."""
        return self.fetched_mono_ms is None or now.mono_ms - self.fetched_mono_ms >= time_ms


class Progress:
    """Voters by id and observers by key, for one epoch of a leader."""

    def __init__(self, voters: VoterSet) -> None:
        self.voters = {voter.key.id: ReplicaProgress(key=voter.key) for voter in voters.voters}
        # In the order of their newest Fetches.
        self._observers: dict[ReplicaKey, ReplicaProgress] = {}
        self.reported: set[ReplicaKey] = set()
        """Voters, and directories that fetch in a voter's name, of which an alarm was raised in this epoch."""

    def of(self, key: ReplicaKey) -> ReplicaProgress:
        """The entry of a replica that fetches now; a new observer gets one."""
        voter = self._voter(key)
        if voter is not None:
            if voter.key.directory_id is None:
                voter.directory_id = key.directory_id
            return voter
        # Reinsert at the end, so that the longest silent observer is always the first. Made-up ids then cost no search.
        found = self._observers.pop(key, None) or ReplicaProgress(key=key)
        self._observers[key] = found
        if len(self._observers) > OBSERVERS_MAX:
            del self._observers[next(iter(self._observers))]
        return found

    def change_voters(self, voters: VoterSet) -> None:
        """Another voter set is in force: a new voter keeps its progress, a removed one becomes an observer."""
        before = list(self.voters.values())
        after: dict[NodeId, ReplicaProgress] = {}
        for voter in voters.voters:
            known = self.voters.get(voter.key.id)
            is_same = known is not None and (known.key == voter.key or known.key.matches(voter.key))
            seen = known if is_same else self._observers.pop(voter.key, None)
            after[voter.key.id] = seen or ReplicaProgress(key=voter.key)
            after[voter.key.id].key = voter.key
            if voter.key.directory_id is not None:
                after[voter.key.id].directory_id = None
        self.voters = after
        kept = {id(seen) for seen in after.values()}
        self._observers.update({seen.key: seen for seen in before if id(seen) not in kept})

    def known(self, key: ReplicaKey | None) -> ReplicaProgress | None:
        """The voter or observer with this key, if it has fetched or is a voter."""
        return None if key is None else self._voter(key) or self._observers.get(key)

    def observer(self, key: ReplicaKey) -> ReplicaProgress | None:
        """The progress of this observer, if it has fetched."""
        return self._observers.get(key)

    def is_voter(self, key: ReplicaKey) -> bool:
        """True when the key is of the voter set in force."""
        return self._voter(key) is not None

    def twin_of(self, key: ReplicaKey) -> ReplicaProgress | None:
        """The static voter in whose name this replica fetches from another directory."""
        voter = self.voters.get(key.id)
        return voter if voter is not None and voter.key.matches(key) and not voter.may_be(key) else None

    @property
    def directories(self) -> dict[NodeId, Uuid]:
        """The directory ids that static voters told with their Fetches."""
        return {node_id: seen.directory_id for node_id, seen in self.voters.items() if seen.directory_id is not None}

    def _voter(self, key: ReplicaKey) -> ReplicaProgress | None:
        voter = self.voters.get(key.id)
        return voter if voter is not None and voter.may_be(key) else None

    def observers(self, now: Instant) -> list[ReplicaProgress]:
        """Observers in the order of their keys, without those that fell silent."""
        self._observers = {
            key: replica
            for key, replica in self._observers.items()
            if not replica.is_silent_for(OBSERVER_SESSION_MS, now)
        }
        return [self._observers[key] for key in sorted(self._observers, key=_key_order)]

    def observers_count(self, now: Instant) -> int:
        """Observers that did not fall silent; a removed voter counts even if it never fetched in this epoch."""
        return sum(
            replica.fetched_mono_ms is None or not replica.is_silent_for(OBSERVER_SESSION_MS, now)
            for replica in self._observers.values()
        )

    def by_fetch_offset(self, without: NodeId, preferred: NodeId | None = None) -> tuple[ReplicaKey, ...]:
        """Preferred successors: all voters but one, most caught up first, unknown last, ties by preference and id."""
        others = [replica for node_id, replica in self.voters.items() if node_id != without]
        others.sort(
            key=lambda replica: (
                -(replica.end_offset if replica.end_offset is not None else -1),
                replica.key.id != preferred,
                replica.key.id,
            )
        )
        return tuple(replica.key for replica in others)


def _key_order(key: ReplicaKey) -> tuple[NodeId, bytes]:
    return key.id, key.directory_id or b""
