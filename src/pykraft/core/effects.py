"""What a replica wants done: the only way out of the core.

The host carries effects out in the order of the list. Storage effects carry a number (`Io`); they are done
in the order of these numbers and the host reports `events.Persisted` when they are durable. A message
carries ``after``: it may leave only once that job is durable (etcd ``doc.go``; openraft ``io_ordering``).

``NotifyLeaderChange``, ``NotifyHighWatermark`` and ``NotifyRole`` are facts for listeners, metrics and
traces; nothing in the protocol waits for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pykraft.core.messages import FetchResponse, FetchSnapshotResponse, Request, Response
from pykraft.core.quarantine import Quarantine
from pykraft.types import ControlRecord, Election, Endpoint, Epoch, Io, NodeId, Offset, OffsetAndEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Whom to send to: a voter's id, or below -1 for a bootstrap server, and where it listens."""

    id: int
    endpoint: Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteElectionState:
    """Make this election durable in ``quorum-state``; ``voters`` is what version 0 of the file lists."""

    io: Io
    election: Election
    voters: tuple[NodeId, ...]
    kraft_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """One batch to encode: the values of these proposals, in order, or these control records.

    Exactly one of ``handles`` and ``control`` is not empty. Timestamp in wall ms.
    """

    base_offset: Offset
    end_offset: Offset
    epoch: Epoch
    timestamp_ms: int
    handles: tuple[int, ...] = ()
    control: tuple[ControlRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendBatches:
    """Encode and append at the leader's log end."""

    io: Io
    batches: tuple[PlannedBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendFetched:
    """Append the first ``count`` batches of the Fetch response that this step was given."""

    io: Io
    count: int
    end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateTo:
    """Cut the log so that ``end_offset`` is its end; durable before any later append."""

    io: Io
    end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterQuarantine:
    """Note durably that this replica lost part of its log; read nothing from ``end_offset`` on any more.

    The files stay as they are: a `TruncateTo` follows once a leader has what is missing.
    """

    io: Io
    quarantine: Quarantine
    end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveQuarantine:
    """This replica holds all it ever acknowledged again: forget, durably, that it was damaged."""

    io: Io


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteProof:
    """Note durably that this directory is this replica's, which votes in epochs after ``votes_above`` only."""

    io: Io
    votes_above: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallSnapshot:
    """Put this frozen snapshot into the place of the whole log, which goes on empty where the snapshot ends."""

    io: Io
    snapshot_id: OffsetAndEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveLogStart:
    """Let log and snapshots begin at this snapshot: what is older is removed."""

    io: Io
    snapshot_id: OffsetAndEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginDownload:
    """Fetch this snapshot from the leader of this epoch, or go on where that ended.

    `events.DownloadAdvanced` follows, or `events.SnapshotFrozen` when nothing is missing.
    """

    snapshot_id: OffsetAndEpoch
    leader_epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendDownload:
    """Add the bytes of the FetchSnapshot response that this step was given; freeze the snapshot if they are the last.

    `events.DownloadAdvanced` follows, or after the last ones `events.SnapshotFrozen`; else `events.DownloadFailed`.
    """

    snapshot_id: OffsetAndEpoch
    position: int
    is_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonDownload:
    """Remove what was fetched of this snapshot: it cannot be a part of what the leader has."""

    snapshot_id: OffsetAndEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send a request. A later Send to the same peer makes an unanswered one void."""

    after: Io
    peer: Peer
    correlation_id: int
    message: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Answer a request."""

    after: Io
    request_id: int
    message: Response


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyFetch:
    """Answer a Fetch with records from ``fetch_offset`` up to ``end_offset``, at most ``size_bytes_max``.

    The offsets are equal when there is nothing to send; otherwise at least one whole batch is sent. If the
    log was truncated between this effect and the read, the host answers NOT_LEADER_OR_FOLLOWER instead.
    ``is_watched``: the host tells how far the answer has left (`events.AnswerLeaving`).
    """

    after: Io
    request_id: int
    message: FetchResponse
    fetch_offset: Offset
    end_offset: Offset
    size_bytes_max: int
    is_watched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplySnapshot:
    """Answer a FetchSnapshot with bytes of the snapshot that ``message`` names, at most ``size_bytes_max``.

    The host tells its size; beyond that it answers POSITION_OUT_OF_RANGE, and SNAPSHOT_NOT_FOUND for one that went.
    ``is_watched`` as in `ReplyFetch`.
    """

    after: Io
    request_id: int
    message: FetchSnapshotResponse
    size_bytes_max: int
    is_watched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseRequester:
    """The requester did what no correct replica does: one log line, then close its connection."""

    request_id: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosePeer:
    """The answering peer did what no correct replica does: one log line, then close the connection to it."""

    peer_id: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptProposal:
    """The records of this proposal got offsets from ``base_offset``; they are not yet committed."""

    handle: int
    base_offset: Offset
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectProposal:
    """The records of this proposal will never be in the log."""

    handle: int
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWish:
    """What came of an upgrade (in the log, or could be, or was already) or of a transfer; else the reason why not."""

    handle: int
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyHighWatermark:
    """Everything below is committed."""

    high_watermark: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyLeaderChange:
    """The epoch rose, or its leader became known.

    ``epoch_start_offset`` is set when this node leads: a listener hears of it once it has seen everything
    below that offset and the leader's own first record.
    """

    epoch: Epoch
    leader_id: NodeId | None
    epoch_start_offset: Offset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyRole:
    """The replica is now in this state, named as in Kafka's current-state metric."""

    role: str
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteShutdown:
    """The graceful shutdown is over; not ``graceful`` when its time ran out first."""

    graceful: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Something an operator should read in the log; nothing else depends on it. An alarm calls for action."""

    text: str
    is_alarm: bool = False


StorageEffect: TypeAlias = (
    WriteElectionState
    | AppendBatches
    | AppendFetched
    | TruncateTo
    | EnterQuarantine
    | LeaveQuarantine
    | NoteProof
    | InstallSnapshot
    | MoveLogStart
)
MessageEffect: TypeAlias = Send | Reply | ReplyFetch | ReplySnapshot
Effect: TypeAlias = (
    StorageEffect
    | MessageEffect
    | BeginDownload
    | AppendDownload
    | AbandonDownload
    | CloseRequester
    | ClosePeer
    | AcceptProposal
    | RejectProposal
    | AnswerWish
    | NotifyHighWatermark
    | NotifyLeaderChange
    | NotifyRole
    | CompleteShutdown
    | Report
)
