"""The types that every layer shares: ids, offsets, epochs, replica keys, voter sets, control records.

Pure values with look-ups only. ``protocol`` knows their bytes on the wire, ``log`` their files, ``core`` the rules.

Source: Kafka's ``OffsetAndEpoch``, ``ReplicaKey``, ``Endpoints`` and ``VoterSet``; KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import NewType, TypeAlias

from pykraft.errors import UsageError
from pykraft.value import value

Epoch = NewType("Epoch", int)
"""int32 >= 0; Raft's term."""
Offset = NewType("Offset", int)
"""int64 >= 0; Raft's index. An ``end_offset`` is exclusive, a ``last_offset`` inclusive."""
NodeId = NewType("NodeId", int)
"""int32 >= 0; a replica without an id is ``None`` here and -1 on the wire."""
Io = NewType("Io", int)
"""Number of a storage job, >= 1; jobs run and become durable in this order."""
Uuid = NewType("Uuid", bytes)
"""Exactly 16 bytes."""
Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes that are passed on without a copy."""

EPOCH_ZERO = Epoch(0)
NO_IO = Io(0)
ZERO_UUID = Uuid(bytes(16))
EPOCH_MAX = Epoch(2**31 - 2)
"""The largest epoch that a peer may use; Kafka has no such bound; after 2**31 - 1 its epoch overflows."""
PORT_MAX = 2**16 - 1
NAME_SIZE_MAX = 255
"""Characters of a host or listener name; a DNS name has at most 253."""
LISTENERS_MAX = 16
"""Endpoints that a voter may have, or a request may name."""
_UUID_TEXT = re.compile(r"[A-Za-z0-9_-]{22}")


def uuid_text(value: Uuid) -> str:
    """Kafka's text form: URL-safe base64 of the 16 bytes, 22 characters, no padding."""
    return base64.urlsafe_b64encode(value).decode("ascii").rstrip("=")


def uuid_parse(text: str) -> Uuid:
    """Parse Kafka's text form.

    Errors: UsageError unless the text is URL-safe base64 of exactly 16 bytes.
    """
    if not _UUID_TEXT.fullmatch(text):
        raise UsageError(f"{text!r} is not a Kafka UUID: expected 22 characters of URL-safe base64 (16 bytes)")
    return Uuid(base64.urlsafe_b64decode(text + "=="))


@value(frozen=True, slots=True, kw_only=True)
class Instant:
    """One reading of both clocks. Deadlines use ``mono_ms`` only; ``wall_ms`` is for timestamps."""

    mono_ms: int
    wall_ms: int


@dataclass(frozen=True, slots=True, order=True)
class ReplicaKey:
    """Id and directory id of a replica; ``None`` for an unknown directory id."""

    id: NodeId
    directory_id: Uuid | None = None

    def matches(self, other: ReplicaKey) -> bool:
        """True when ids are equal and this key's directory id is unknown or equal.

        Source: KIP-853 §Voter matching; asymmetric on purpose: ``self`` is the entry of a set or a vote.
        """
        return self.id == other.id and (self.directory_id is None or self.directory_id == other.directory_id)


@dataclass(frozen=True, slots=True)
class OffsetAndEpoch:
    """A position in a log: ``offset`` (of an end: exclusive) and the epoch of the record before it."""

    offset: Offset
    epoch: Epoch

    def is_at_least(self, other: OffsetAndEpoch) -> bool:
        """Raft's up-to-date rule: epoch first, then offset (paper §5.4.1)."""
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a listener. An IPv6 host has no brackets."""

    host: str
    port: int

    @property
    def can_be_dialed(self) -> bool:
        """False for an invalid host or port, whoever sent it; no name is looked up.

        A NUL in a numeric host, for instance, passes the lookup and then is a ValueError of asyncio.
        """
        is_host = 0 < len(self.host) <= NAME_SIZE_MAX and self.host.isprintable() and " " not in self.host
        return is_host and 0 < self.port <= PORT_MAX

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Listeners:
    """Endpoints by listener name, in their configured order; names are upper case."""

    entries: tuple[tuple[str, Endpoint], ...] = ()

    def get(self, name: str) -> Endpoint | None:
        """The endpoint of this listener, or None."""
        wanted = name.upper()
        for known, endpoint in self.entries:  # every step asks: a loop is several times as fast as a generator
            if known == wanted:
                return endpoint
        return None

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[tuple[str, Endpoint]]:
        return iter(self.entries)


NO_LISTENERS = Listeners()


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Supported levels of the feature ``kraft.version``, both inclusive."""

    min_version: int = 0
    max_version: int = 0


KRAFT_VERSIONS = VersionRange(0, 1)
"""Supported levels of the feature ``kraft.version``: static voters, and voters in the log (KIP-853)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """One member of a voter set (KIP-853 VoterNode)."""

    key: ReplicaKey
    listeners: Listeners
    kraft_version: VersionRange = VersionRange()


@dataclass(frozen=True, slots=True)
class VoterSet:
    """Voters by ascending id, each id at most once."""

    voters: tuple[Voter, ...] = ()

    def __post_init__(self) -> None:
        ids = self.ids
        assert list(ids) == sorted(set(ids)), "voters are unique and sorted by id"

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> VoterSet:
        """A set from voters in any order; the last of two with the same id wins, as in Kafka."""
        by_id = {voter.key.id: voter for voter in voters}
        return cls(tuple(by_id[node_id] for node_id in sorted(by_id)))

    @property
    def ids(self) -> tuple[NodeId, ...]:
        """Ids of all voters, ascending."""
        return tuple(voter.key.id for voter in self.voters)

    def get(self, node_id: NodeId | None) -> Voter | None:
        """The voter with this id, whatever its directory id."""
        for voter in self.voters:  # every step asks: a loop is twice as fast as a generator
            if voter.key.id == node_id:
                return voter
        return None

    def is_voter(self, key: ReplicaKey) -> bool:
        """True when an entry matches the key (see `ReplicaKey.matches`)."""
        voter = self.get(key.id)
        return voter is not None and voter.key.matches(key)

    def listeners(self, node_id: NodeId | None) -> Listeners:
        """Listeners of this voter; empty if it is not in the set."""
        voter = self.get(node_id)
        return voter.listeners if voter else NO_LISTENERS

    def is_only_voter(self, key: ReplicaKey) -> bool:
        """True when the set is exactly this replica."""
        return len(self.voters) == 1 and self.is_voter(key)

    def with_added(self, voter: Voter) -> VoterSet | None:
        """The set with this voter added; None if its id is in use, whatever the directory id."""
        return None if self.get(voter.key.id) else VoterSet.of((*self.voters, voter))

    def without(self, key: ReplicaKey) -> VoterSet | None:
        """The set without exactly this voter; None if it is not in the set, or the only one."""
        rest = tuple(voter for voter in self.voters if voter.key != key)
        return VoterSet(rest) if 0 < len(rest) < len(self.voters) else None

    def with_updated(self, voter: Voter) -> VoterSet | None:
        """The set with this entry in place of the one that its key matches; None if none does."""
        return VoterSet.of((*self.voters, voter)) if self.is_voter(voter.key) else None

    def __len__(self) -> int:
        return len(self.voters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """A replica's durable state of one epoch (the ``quorum-state`` file)."""

    epoch: Epoch = Epoch(0)
    leader_id: NodeId | None = None
    voted: ReplicaKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStart:
    """An entry of the leader-epoch cache: the first offset of an epoch."""

    epoch: Epoch
    start_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A place in the log that no longer holds what was written there, as `pykraft.log.judge` finds it.

    ``end_offset`` (exclusive) is where valid batches are known to start again, or to have ended; None: unknown.
    """

    path: str
    position: int
    start_offset: Offset
    end_offset: Offset | None = None
    expected: str
    found: str

    def __str__(self) -> str:
        end = "" if self.end_offset is None else f" up to {self.end_offset}"
        return (
            f"{self.path} at position {self.position}: expected {self.expected}, found {self.found} "
            f"(offsets from {self.start_offset}{end})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """Control record type 2: a leader opens its epoch with it (KIP-595)."""

    leader_id: NodeId
    voters: tuple[NodeId, ...]
    granting_voters: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """Control record type 3: first record of a snapshot (KIP-630). Timestamp in wall ms."""

    last_contained_log_timestamp: int


@dataclass(frozen=True, slots=True)
class SnapshotFooter:
    """Control record type 4: last record of a snapshot (KIP-630)."""


@dataclass(frozen=True, slots=True)
class KRaftVersion:
    """Control record type 5: the finalized ``kraft.version`` (KIP-853)."""

    level: int


@dataclass(frozen=True, slots=True)
class KRaftVoters:
    """Control record type 6: a voter set in the log (KIP-853)."""

    voters: VoterSet


MembershipRecord: TypeAlias = KRaftVersion | KRaftVoters
"""Control records that determine the voters (KIP-853)."""
ControlRecord: TypeAlias = LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | KRaftVoters


class ReportKind(Enum):
    """What a line for the operator reports: code compares kinds and values, and never reads the text back.

    Some lines may be left out of the log for a while, or for ever (`pykraft.server.driver`).
    """

    EVENT = auto()
    """Any other: the node itself changed."""
    CONNECTION = auto()
    """Anyone who can connect may cause it, at any rate."""
    LEADERLESS = auto()
    """There is no leader, and that has been said before."""
    UNPROVEN = auto()
    """The directory is unproven. At a normal first start of a quorum that is over within moments."""
    REQUESTER_CLOSED = auto()
    """The node closes a connection because of what came on it; the id of the connection. Anyone may cause it."""
    PEER_CLOSED = auto()
    """The node closes its connection to a peer because of an answer; the id of the peer."""
    LEADER_GIVEN_UP = auto()
    """A follower leaves a leader that contradicts what it knows; the id of the leader."""
    TRANSFER_BEGUN = auto()
    """A leader transfers its leadership; the id of the target."""
    TRANSFER_FAILED = auto()
    """A transfer failed; the id of the target."""
    RESIGNED_FOR_TARGET = auto()
    """The target of a transfer has the whole log, so the leader resigns; its epoch, and the id of the target."""
    HANDED_OVER = auto()
    """A leader that never leads for long resigns; its epoch, and the id of its successor."""
    TRUNCATION = auto()
    """A sound log is cut; the end offsets before and after."""
    QUARANTINE_OVER = auto()
    """A damaged log is whole again; its end offset."""
    ACKNOWLEDGED_AGAIN = auto()
    """A voter fetches what it has acknowledged in this epoch; its id."""
    TWIN = auto()
    """Two processes have one node id; that id."""
    SNAPSHOT_DUE = auto()
    """The application is asked for a snapshot; its end offset."""
    SNAPSHOT_NOT_WRITTEN = auto()
    """The disk takes no snapshot."""
    SNAPSHOT_NOT_READ = auto()
    """The disk gives no snapshot back."""
