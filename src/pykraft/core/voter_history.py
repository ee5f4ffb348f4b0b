"""Voter sets and levels of ``kraft.version`` by offset, as the log holds them.

Both histories are fed by every append and cut by every truncation. Invariant: the newest entry is in force from its
append on, committed or not. That is safe because a voter set differs from the one before by at most one voter, so any
majority of the old set meets any majority of the new one (Raft dissertation §4.1). Without an entry, the configured
static set is in force, at level 0. An entry at offset -1 comes from the checkpoint with which the quorum was formatted.

`core.on` decides who may request a change, and when.

Source: KIP-853 §Log and voter sets; Kafka ``KRaftControlRecordStateMachine``, ``VoterSetHistory``.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Generic, TypeVar

from pykraft.types import Endpoint, KRaftVoters, MembershipRecord, NodeId, Offset, ReplicaKey, VoterSet

BOOTSTRAP_OFFSET = Offset(-1)
"""Offset of the entries of a bootstrap checkpoint: before every record."""

T = TypeVar("T")


class _History(Generic[T]):
    """Values by ascending offset."""

    def __init__(self) -> None:
        self._offsets: list[Offset] = []
        self._values: list[T] = []

    def add(self, offset: Offset, value: T) -> None:
        assert offset >= BOOTSTRAP_OFFSET
        assert not self._offsets or self._offsets[-1] < offset, "control records are read in the order of the log"
        self._offsets.append(offset)
        self._values.append(value)

    @property
    def newest(self) -> tuple[Offset, T] | None:
        return (self._offsets[-1], self._values[-1]) if self._offsets else None

    @property
    def newest_first(self) -> Iterable[T]:
        return reversed(self._values)

    @property
    def oldest_offset(self) -> Offset:
        return self._offsets[0] if self._offsets else BOOTSTRAP_OFFSET

    @property
    def former(self) -> T | None:
        """The value before the newest."""
        return self._values[-2] if len(self._values) > 1 else None

    def at(self, offset: Offset) -> T | None:
        """The value in force at this offset: the newest entry at or before it."""
        found = bisect_right(self._offsets, offset)
        return self._values[found - 1] if found else None

    def truncate_to(self, end_offset: Offset) -> None:
        keep = bisect_right(self._offsets, end_offset - 1)
        del self._offsets[keep:], self._values[keep:]

    def lose_from(self, end_offset: Offset, snapshot_end: Offset) -> None:
        said = self.at(Offset(snapshot_end - 1))
        self.truncate_to(end_offset)
        if said is not None and self.newest is None:
            self.add(Offset(end_offset - 1), said)

    def forget_before(self, offset: Offset) -> None:
        drop = max(0, bisect_right(self._offsets, offset) - 1)
        del self._offsets[:drop], self._values[:drop]


class VoterHistory:
    """Voter sets and levels by offset; ``static`` is the configured set, in force while the log has none."""

    def __init__(self, static: VoterSet, records: Iterable[tuple[Offset, MembershipRecord]] = ()) -> None:
        self._static = static
        self._sets: _History[VoterSet] = _History()
        self._levels: _History[int] = _History()
        self.voters = static
        """The set in force."""
        self.kraft_version = 0
        """The level in force."""
        for offset, record in records:
            self.record(offset, record)

    @property
    def voters_offset(self) -> Offset | None:
        """Offset of the entry in force; None while the static set is."""
        newest = self._sets.newest
        return newest[0] if newest else None

    @property
    def ignores_static(self) -> bool:
        """True when a static set is configured but the log overrules it."""
        return self.voters_offset is not None and len(self._static) > 0

    def is_leaving(self, key: ReplicaKey, committed_end: Offset) -> bool:
        """True for a replica that the newest set removed, while that set is not known to be committed.

        Source: Raft dissertation §4.2.2.
        """
        newest, former = self._sets.newest, self._sets.former or self._static
        is_in_doubt = newest is not None and newest[0] >= committed_end
        return is_in_doubt and former.is_voter(key) and not self.voters.is_voter(key)

    def was_voter(self, node_id: NodeId, committed_end: Offset) -> bool:
        """True for an id in the set before the newest one, while the newest is not known to be committed."""
        newest, former = self._sets.newest, self._sets.former or self._static
        return newest is not None and newest[0] >= committed_end and former.get(node_id) is not None

    def endpoints_of(self, node_id: NodeId, listener: str) -> list[Endpoint]:
        """Where this voter is on the listener, then where it was, as far as the log says, with the same directory."""
        found: list[Endpoint] = []
        newest = self.voters.get(node_id)
        for voters in (self.voters, *self._sets.newest_first):
            voter = voters.get(node_id)
            endpoint = None if voter is None else voter.listeners.get(listener)
            is_same = newest is not None and voter is not None and voter.key == newest.key
            if is_same and endpoint is not None and endpoint not in found:
                found.append(endpoint)
        return found

    def record(self, offset: Offset, record: MembershipRecord) -> None:
        """A control record was appended at this offset, above all others."""
        if isinstance(record, KRaftVoters):
            self._sets.add(offset, record.voters)
        else:
            self._levels.add(offset, record.level)
        self._refresh()

    def truncate_to(self, end_offset: Offset) -> None:
        """Records from ``end_offset`` on were truncated: the entries before them are in force again."""
        self._sets.truncate_to(end_offset)
        self._levels.truncate_to(end_offset)
        self._refresh()

    def lose_from(self, end_offset: Offset, snapshot_end: Offset) -> None:
        """Records from ``end_offset`` on were lost, not truncated, and a snapshot reaches beyond."""
        # If no entry is left, the snapshot still tells who votes; the changes since then are fetched again. After a
        # start we do not know what older snapshots said, so the newest one speaks for them, unless static voters are
        # configured.
        if snapshot_end > end_offset and not len(self._static):
            snapshot_end = max(snapshot_end, Offset(self._sets.oldest_offset + 1))
        self._sets.lose_from(end_offset, snapshot_end)
        self._levels.lose_from(end_offset, snapshot_end)
        self._refresh()

    def forget_before(self, offset: Offset) -> None:
        """A snapshot up to ``offset`` covers older entries; the entry in force there is kept."""
        self._sets.forget_before(offset)
        self._levels.forget_before(offset)

    def replace_by(self, snapshot_end: Offset, records: Iterable[MembershipRecord]) -> None:
        """A snapshot replaced the log: its entries get its last offset, and all others are dropped."""
        self._sets, self._levels = _History(), _History()
        self._refresh()
        for record in records:
            self.record(Offset(snapshot_end - 1), record)

    def voters_at(self, offset: Offset) -> VoterSet | None:
        """The set in force at an offset, for a snapshot that ends there; None for the static one."""
        return self._sets.at(offset)

    def kraft_version_at(self, offset: Offset) -> int:
        return self._levels.at(offset) or 0

    def _refresh(self) -> None:
        sets, levels = self._sets.newest, self._levels.newest
        self.voters = sets[1] if sets else self._static
        self.kraft_version = levels[1] if levels else 0
