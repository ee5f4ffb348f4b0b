"""Effects: the only output of the core.

The host carries effects out in the order of the list. Storage effects have a number (`Io`); the host performs them in
the order of these numbers and reports `events.Persisted` when they are durable. A message has ``after``: it may leave
only once that job is durable (etcd ``doc.go``; openraft ``io_ordering``).

``NotifyLeaderChange``, ``NotifyHighWatermark`` and ``NotifyRole`` inform listeners, metrics and traces; nothing in the
protocol waits for them.
"""

from typing import TypeAlias

from pykraft.core.messages import FetchResponse, FetchSnapshotResponse, Request, Response
from pykraft.core.quarantine import Quarantine
from pykraft.types import ControlRecord, Election, Endpoint, Epoch, Io, NodeId, Offset, OffsetAndEpoch, ReportKind
from pykraft.value import value


@value(frozen=True, slots=True, kw_only=True)
class Peer:
    """A destination: a voter's id, or an id below -1 for a bootstrap server, and its endpoint."""

    id: int
    endpoint: Endpoint


@value(frozen=True, slots=True, kw_only=True)
class WriteElectionState:
    """Make this election durable in ``quorum-state``.

    At ``kraft_version`` 0 the file has version 0, which lists ``voters``; later versions do not.
    """

    io: Io
    election: Election
    voters: tuple[NodeId, ...]
    kraft_version: int


@value(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """One batch to encode: the values of these proposals, in order, or these control records.

    A handle is the number under which the host keeps the values of a proposal; the core never sees values. Exactly one
    of ``handles`` and ``control`` is not empty. Timestamp in wall ms.
    """

    base_offset: Offset
    end_offset: Offset
    epoch: Epoch
    timestamp_ms: int
    handles: tuple[int, ...] = ()
    control: tuple[ControlRecord, ...] = ()


@value(frozen=True, slots=True, kw_only=True)
class AppendBatches:
    """Encode and append at the leader's log end."""

    io: Io
    batches: tuple[PlannedBatch, ...]


@value(frozen=True, slots=True, kw_only=True)
class AppendFetched:
    """Append the first ``count`` batches of the Fetch response that this step was given."""

    io: Io
    count: int
    end_offset: Offset


@value(frozen=True, slots=True, kw_only=True)
class TruncateTo:
    """Truncate the log to ``end_offset``; durable before any later append."""

    io: Io
    end_offset: Offset


@value(frozen=True, slots=True, kw_only=True)
class EnterQuarantine:
    """Note durably that this replica lost part of its log, and stop reading from ``end_offset`` on.

    The files stay as they are: a `TruncateTo` follows once a leader has the missing records.
    """

    io: Io
    quarantine: Quarantine
    end_offset: Offset


@value(frozen=True, slots=True, kw_only=True)
class LeaveQuarantine:
    """This replica again holds all that it ever acknowledged: remove the durable note of the damage."""

    io: Io


@value(frozen=True, slots=True, kw_only=True)
class NoteProof:
    """Note durably that this directory belongs to this replica, which votes only in epochs after ``votes_above``."""

    io: Io
    votes_above: Epoch


@value(frozen=True, slots=True, kw_only=True)
class InstallSnapshot:
    """Replace the whole log by this frozen snapshot; the log continues, empty, at the snapshot's end."""

    io: Io
    snapshot_id: OffsetAndEpoch


@value(frozen=True, slots=True, kw_only=True)
class MoveLogStart:
    """Let log and snapshots start at this snapshot, and remove what is older."""

    io: Io
    snapshot_id: OffsetAndEpoch


@value(frozen=True, slots=True, kw_only=True)
class BeginDownload:
    """Download this snapshot from the leader of this epoch, or continue an earlier download.

    `events.DownloadAdvanced` follows, or `events.SnapshotFrozen` when nothing is missing.
    """

    snapshot_id: OffsetAndEpoch
    leader_epoch: Epoch


@value(frozen=True, slots=True, kw_only=True)
class AppendDownload:
    """Append the bytes of this step's FetchSnapshot response; freeze the snapshot if they are the last.

    `events.DownloadAdvanced` follows, or after the last bytes `events.SnapshotFrozen`; on failure
    `events.DownloadFailed`.
    """

    snapshot_id: OffsetAndEpoch
    position: int
    is_last: bool


@value(frozen=True, slots=True, kw_only=True)
class AbandonDownload:
    """Remove the stored part of this snapshot: the leader's snapshot cannot continue it."""

    snapshot_id: OffsetAndEpoch


@value(frozen=True, slots=True, kw_only=True)
class Send:
    """Send a request. A later Send to the same peer voids an unanswered one."""

    after: Io
    peer: Peer
    correlation_id: int
    message: Request


@value(frozen=True, slots=True, kw_only=True)
class Reply:
    """Answer a request."""

    after: Io
    request_id: int
    message: Response


@value(frozen=True, slots=True, kw_only=True)
class ReplyFetch:
    """Answer a Fetch with records from ``fetch_offset`` up to ``end_offset``, at most ``size_bytes_max``.

    The offsets are equal when there is nothing to send; otherwise at least one whole batch is sent. If the log was
    truncated between this effect and the read, the host answers NOT_LEADER_OR_FOLLOWER instead. ``is_watched``: the
    host reports the answer's progress (`events.AnswerLeaving`).
    """

    after: Io
    request_id: int
    message: FetchResponse
    fetch_offset: Offset
    end_offset: Offset
    size_bytes_max: int
    is_watched: bool = False


@value(frozen=True, slots=True, kw_only=True)
class ReplySnapshot:
    """Answer a FetchSnapshot with bytes of the snapshot that ``message`` names, at most ``size_bytes_max``.

    The host fills in the snapshot's size. It answers POSITION_OUT_OF_RANGE beyond the end, and SNAPSHOT_NOT_FOUND if
    the snapshot was removed meanwhile. ``is_watched`` as in `ReplyFetch`.
    """

    after: Io
    request_id: int
    message: FetchSnapshotResponse
    size_bytes_max: int
    is_watched: bool = False


@value(frozen=True, slots=True, kw_only=True)
class CloseRequester:
    """The requester sent what no correct replica sends: log one line, then close its connection."""

    request_id: int
    reason: str


@value(frozen=True, slots=True, kw_only=True)
class ClosePeer:
    """The peer's response is one that no correct replica sends: log one line, then close the connection to it."""

    peer_id: int
    reason: str


@value(frozen=True, slots=True, kw_only=True)
class AcceptProposal:
    """The records of this proposal got offsets from ``base_offset``; they are not yet committed."""

    handle: int
    base_offset: Offset
    epoch: Epoch


@value(frozen=True, slots=True, kw_only=True)
class RejectProposal:
    """The records of this proposal never reach the log."""

    handle: int
    error: Exception


@value(frozen=True, slots=True, kw_only=True)
class CompletePendingRequest:
    """Tell the caller that asked this node for an upgrade or a transfer how it ended, by the handle of the request.

    Without an error the upgrade is appended, possible or already done, or the transfer is done.
    """

    handle: int
    error: Exception | None = None


@value(frozen=True, slots=True, kw_only=True)
class CompleteRead:
    """A read may begin when the application has everything below this offset; or it may not, because of the error."""

    handle: int
    outcome: Offset | Exception


@value(frozen=True, slots=True, kw_only=True)
class NotifyHighWatermark:
    """Everything below is committed."""

    high_watermark: Offset


@value(frozen=True, slots=True, kw_only=True)
class NotifyLeaderChange:
    """The epoch rose, or its leader became known.

    ``epoch_start_offset`` is set when this node leads. A listener learns of that only after it has received everything
    below that offset and the leader's first record.
    """

    epoch: Epoch
    leader_id: NodeId | None
    epoch_start_offset: Offset | None = None


@value(frozen=True, slots=True, kw_only=True)
class NotifyRole:
    """The replica entered this state, named as in Kafka's current-state metric."""

    role: str
    epoch: Epoch


@value(frozen=True, slots=True, kw_only=True)
class CompleteShutdown:
    """The shutdown is complete; not ``graceful`` when its timeout expired first."""

    graceful: bool


@value(frozen=True, slots=True, kw_only=True)
class Report:
    """A log line for operators; an alarm calls for action. `ReportKind` says what the ``values`` are."""

    text: str
    is_alarm: bool = False
    kind: ReportKind = ReportKind.EVENT
    values: tuple[int, ...] = ()


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
    | CompletePendingRequest
    | CompleteRead
    | NotifyHighWatermark
    | NotifyLeaderChange
    | NotifyRole
    | CompleteShutdown
    | Report
)
