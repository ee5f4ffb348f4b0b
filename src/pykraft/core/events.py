"""What happened to a replica: the only way into the core.

The host builds these from frames, finished storage jobs, the clock and its callers, and passes each to
`Raft.step`. Nothing else reaches the core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pykraft.core.messages import Request, Response
from pykraft.types import Damage, Epoch, Io, MembershipRecord, NodeId, OffsetAndEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReceived:
    """A peer asked. ``request_id`` is the host's; ``listener`` is the name of the one it arrived on."""

    request_id: int
    listener: str
    message: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAbandoned:
    """The connection of this request is gone: nobody waits for its answer."""

    request_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseReceived:
    """A peer answered the request that was sent to ``peer_id`` under ``correlation_id``."""

    peer_id: int
    correlation_id: int
    message: Response


@dataclass(frozen=True, slots=True, kw_only=True)
class SendFailed:
    """No answer will come: the connection failed or closed, or the peer lacks the version (``error``)."""

    peer_id: int
    correlation_id: int
    error: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerArriving:
    """So much of the answer to this request has come, of ``size_bytes`` with its header."""

    peer_id: int
    correlation_id: int
    received_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLeaving:
    """So much of the answer to this request has left this machine, as far as its kernel knows."""

    request_id: int
    sent_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersProgressed:
    """How far unfinished answers are; comes before the step at which a deadline of the core is over.

    ``leaving`` are those that the core wanted watched (`effects.ReplyFetch`).
    """

    arriving: tuple[AnswerArriving, ...] = ()
    leaving: tuple[AnswerLeaving, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Persisted:
    """Every storage job up to and including ``io`` is durable."""

    io: Io


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """The application wants ``count`` records appended as one atomic batch.

    ``size_bytes`` is what they take in a batch, without the batch header. ``epoch`` is the epoch that the
    application believes this node to lead. ``is_prepared``: it is not to be drained before `AppendsScheduled`.
    """

    handle: int
    epoch: Epoch
    count: int
    size_bytes: int
    is_prepared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendsScheduled:
    """The application lets go of everything that it has prepared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerDue:
    """Time has passed; perhaps a deadline with it. A superfluous one does no harm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptionFound:
    """A batch of this replica's own log is not what was once synced; all before it, in its segment, is sound."""

    damage: Damage


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadAdvanced:
    """All bytes of this download up to ``position`` are where they belong: those from there on are wanted."""

    snapshot_id: OffsetAndEpoch
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadFailed:
    """What came of this snapshot cannot be one; nothing is left of it."""

    snapshot_id: OffsetAndEpoch
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFrozen:
    """A snapshot is whole and durable, fetched or taken here; ``membership`` is what it says of voters."""

    snapshot_id: OffsetAndEpoch
    membership: tuple[MembershipRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotsExpired:
    """Snapshots before this one, and the log that they stand for, are no longer needed."""

    oldest_kept: OffsetAndEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ResignRequested:
    """The application gives up leadership of ``epoch``."""

    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeRequested:
    """An operator wants ``kraft.version`` at this level; ``validate_only`` asks no more than whether it could be."""

    handle: int
    epoch: Epoch
    version: int
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRequested:
    """The application wants this voter to lead in its place; it waits ``timeout_ms`` for the voter to have its log."""

    handle: int
    epoch: Epoch
    target_id: NodeId
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownRequested:
    """Leave gracefully: hand over leadership, then `effects.CompleteShutdown`; at most ``timeout_ms``."""

    timeout_ms: int


Event: TypeAlias = (
    RequestReceived
    | RequestAbandoned
    | ResponseReceived
    | SendFailed
    | AnswersProgressed
    | Persisted
    | Proposed
    | AppendsScheduled
    | TimerDue
    | CorruptionFound
    | DownloadAdvanced
    | DownloadFailed
    | SnapshotFrozen
    | SnapshotsExpired
    | ResignRequested
    | UpgradeRequested
    | TransferRequested
    | ShutdownRequested
)
