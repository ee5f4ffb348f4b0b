"""Events: the only input of the core.

The host builds them from frames, finished storage jobs, the clock and calls of the application, and passes each to
`Raft.step`.
"""

from typing import Final, TypeAlias

from pykraft.core.messages import Request, Response
from pykraft.types import Damage, Epoch, Io, MembershipRecord, NodeId, Offset, OffsetAndEpoch
from pykraft.value import value


@value(frozen=True, slots=True, kw_only=True)
class RequestReceived:
    """A request arrived. ``request_id`` is the host's; ``listener`` names the listener it arrived on."""

    request_id: int
    listener: str
    message: Request


@value(frozen=True, slots=True, kw_only=True)
class RequestAbandoned:
    """The connection of this request is gone: do not answer it."""

    request_id: int


@value(frozen=True, slots=True, kw_only=True)
class ResponseReceived:
    """A peer answered the request that was sent to ``peer_id`` under ``correlation_id``."""

    peer_id: int
    correlation_id: int
    message: Response


@value(frozen=True, slots=True, kw_only=True)
class SendFailed:
    """No response will come: the connection failed or closed, or the peer lacks the version (``error``).

    ``is_refused`` when the peer's machine refused the connection: no process listens there.
    """

    peer_id: int
    correlation_id: int
    error: int
    is_refused: bool = False


@value(frozen=True, slots=True, kw_only=True)
class ConnectionLost:
    """During a shutdown: the connection to a peer ended while no request to it was outstanding."""

    peer_id: int


@value(frozen=True, slots=True, kw_only=True)
class AnswerArriving:
    """This much of the response to a request has arrived; ``size_bytes`` includes its header."""

    peer_id: int
    correlation_id: int
    received_bytes: int
    size_bytes: int


UNSEEN_SIZE_BYTES: Final = 256 * 1024
"""A smaller answer that has left arrives within half a second, at the pace of `pykraft.core.answer_pace`."""


@value(frozen=True, slots=True, kw_only=True)
class AnswerLeaving:
    """This much of our answer to a request has left this machine, as far as its kernel knows.

    Of `UNSEEN_SIZE_BYTES` and more the core hears until the next request: bytes may be in buffers on their way.
    """

    request_id: int
    sent_bytes: int
    size_bytes: int


@value(frozen=True, slots=True, kw_only=True)
class AnswersProgressed:
    """Progress of unfinished answers; comes before the step in which a deadline of the core expires.

    ``leaving`` are those that the core asked to watch (`effects.ReplyFetch`).
    """

    arriving: tuple[AnswerArriving, ...] = ()
    leaving: tuple[AnswerLeaving, ...] = ()


@value(frozen=True, slots=True, kw_only=True)
class Persisted:
    """Every storage job up to and including ``io`` is durable."""

    io: Io


@value(frozen=True, slots=True, kw_only=True)
class Proposed:
    """The application wants ``count`` records appended as one atomic batch.

    ``size_bytes`` is their size in a batch, without the batch header. ``epoch`` is the epoch that the application
    believes this node to lead. ``is_prepared``: do not drain them before `AppendsScheduled`. ``is_batch``: they are a
    whole batch already, which shares its place with no other proposal.
    """

    handle: int
    epoch: Epoch
    count: int
    size_bytes: int
    is_prepared: bool = False
    is_batch: bool = False


@value(frozen=True, slots=True, kw_only=True)
class AppendsScheduled:
    """The application releases everything that it has prepared."""


@value(frozen=True, slots=True, kw_only=True)
class TimerDue:
    """Time has passed, perhaps a deadline with it. An extra one does no harm."""


@value(frozen=True, slots=True, kw_only=True)
class CorruptionFound:
    """A batch of this replica's log is not what was once synced; everything before it in its segment is intact."""

    damage: Damage


@value(frozen=True, slots=True, kw_only=True)
class DownloadAdvanced:
    """All bytes of this download from the leader of ``leader_epoch``, up to ``position``, are stored.

    Ask for those from there on.
    """

    snapshot_id: OffsetAndEpoch
    leader_epoch: Epoch
    position: int


@value(frozen=True, slots=True, kw_only=True)
class DownloadFailed:
    """The bytes that arrived are not a valid snapshot; they were removed."""

    snapshot_id: OffsetAndEpoch
    reason: str


@value(frozen=True, slots=True, kw_only=True)
class SnapshotFrozen:
    """A snapshot is complete and durable, downloaded or created here; ``membership`` are its voter records."""

    snapshot_id: OffsetAndEpoch
    membership: tuple[MembershipRecord, ...] = ()


@value(frozen=True, slots=True, kw_only=True)
class SnapshotsExpired:
    """Snapshots before this one, and the log that they cover, are no longer needed."""

    oldest_kept: OffsetAndEpoch


@value(frozen=True, slots=True, kw_only=True)
class ResignRequested:
    """The application resigns from the leadership of ``epoch``."""

    epoch: Epoch


@value(frozen=True, slots=True, kw_only=True)
class UpgradeRequested:
    """An operator wants ``kraft.version`` at this level; ``validate_only`` only asks whether that is possible."""

    handle: int
    epoch: Epoch
    version: int
    validate_only: bool = False


@value(frozen=True, slots=True, kw_only=True)
class TransferRequested:
    """The application wants this voter to lead; the leader waits ``timeout_ms`` for the voter to have its log."""

    handle: int
    epoch: Epoch
    target_id: NodeId
    timeout_ms: int


@value(frozen=True, slots=True, kw_only=True)
class ReadRequested:
    """The application wants to read its state, not older than what is committed now."""

    handle: int


@value(frozen=True, slots=True, kw_only=True)
class CommitHeard:
    """The leader of ``epoch`` said outside of Raft's own RPCs that everything below ``end_offset`` is committed."""

    epoch: Epoch
    end_offset: Offset


@value(frozen=True, slots=True, kw_only=True)
class ShutdownRequested:
    """Leave gracefully: hand over leadership, then `effects.CompleteShutdown`; at most ``timeout_ms``."""

    timeout_ms: int


Event: TypeAlias = (
    RequestReceived
    | RequestAbandoned
    | ResponseReceived
    | SendFailed
    | ConnectionLost
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
    | ReadRequested
    | CommitHeard
    | ShutdownRequested
)
