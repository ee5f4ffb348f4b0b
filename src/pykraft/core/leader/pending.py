"""What a leader has begun and not finished: a voter change, a transfer, reads. Data only; the rules are in ``core.on``.

There is one voter change at a time, dropped when it commits or times out. The record of a change that timed out may
still commit later. A change with ``is_answered`` has had its response, and only keeps other changes away until it
commits.

Source: KIP-853 §AddRaftVoter, §RemoveRaftVoter, KIP-1186, KAFKA-20661; Kafka ``AddVoterHandlerState``,
``RemoveVoterHandlerState``; Raft dissertation §3.10, §6.4; ours (ADR 069).
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pykraft.types import Epoch, NodeId, Offset, Voter

READS_MAX: Final = 10_000
"""Reads that wait at one time; one more is refused."""


@dataclass(slots=True, kw_only=True)
class ReadRound:
    """One round of confirmations for all reads that waited when it began.

    The reads see everything below ``offset``. ``asked`` are the newest requests of this round by voter; an answer to an
    older request confirms nothing, because its voter may have sent it before the reads came.
    """

    handles: tuple[int, ...]
    offset: Offset
    asked: dict[NodeId, int] = field(default_factory=dict)
    confirmed: set[NodeId] = field(default_factory=set)


@dataclass(slots=True)
class Reads:
    """The reads of one leader."""

    waiting: list[int] = field(default_factory=list)
    """Handles of reads for the next round."""
    round: ReadRound | None = None

    @property
    def handles(self) -> list[int]:
        return [*(() if self.round is None else self.round.handles), *self.waiting]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """The leader of ``epoch`` wants ``target_id`` to lead the next one.

    If the target does not have the whole log by ``deadline_ms``, the leader stays leader. Once the leader has resigned,
    a new one should be known by ``outcome_deadline_ms`` (both mono). ``is_heard``: the target has fetched since the
    request. Exactly one of ``handle`` and ``request_id`` identifies the requester.
    """

    epoch: Epoch
    target_id: NodeId
    begun_ms: int
    deadline_ms: int
    outcome_deadline_ms: int
    is_heard: bool = False
    handle: int | None = None
    request_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A new voter: first asked for its supported levels, then appended in a voter set at ``offset``.

    With ``ack_when_committed`` the request is answered when that set commits, otherwise when it is appended.
    Deadline in mono ms.
    """

    request_id: int
    voter: Voter
    ack_when_committed: bool
    deadline_ms: int
    offset: Offset | None = None
    is_answered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A voter's new endpoints and levels: the leader asks there for the levels, then the update is in force.

    At level 1 it is in the voter set at ``offset``, and the request is answered when that is appended; at level 0 it
    is in the leader's memory, and the change ends. The answer names the leader's endpoints on ``listener``, where the
    request came in. Deadline in mono ms.
    """

    request_id: int
    listener: str
    voter: Voter
    deadline_ms: int
    ask_ms: int | None = None
    """When a voter that moved is asked, unless it fetches before (mono ms); None once it was asked."""
    offset: Offset | None = None
    is_answered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A voter that the voter set at ``offset`` no longer contains. Deadline in mono ms."""

    request_id: int
    deadline_ms: int
    offset: Offset
    is_answered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """The upgrade record with the static voters, at ``offset``. Deadline in mono ms."""

    request_id: int
    deadline_ms: int
    offset: Offset
    is_answered: bool = False


VoterChange: TypeAlias = Addition | Update | Removal | Upgrade
