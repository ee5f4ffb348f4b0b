"""The messages of the protocol as values, without wire versions.

``rpc`` encodes and decodes them; only ``rpc`` knows versions, topic names and cluster ids. A peer's request may contain
any int (a negative offset is answered INVALID_REQUEST, not rejected while decoding), so handlers check the offsets and
epochs of requests.

``listeners`` of a response hold the leader's endpoint: outgoing, for the listener on which the request arrived;
incoming, for this node's default listener. Empty means unknown.

Source: KIP-595, KIP-853, KIP-996, KIP-1166; Kafka's message definitions of 4.3 and 4.4.
"""

from typing import Final, TypeAlias

from pykraft import types
from pykraft.errors import ErrorCode
from pykraft.value import value


@value(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    """Vote and PreVote. ``last`` is the candidate's log end (offset exclusive) and last epoch."""

    epoch: types.Epoch
    candidate: types.ReplicaKey
    voter: types.ReplicaKey | None
    last: types.OffsetAndEpoch
    pre_vote: bool


@value(frozen=True, slots=True, kw_only=True)
class VoteResponse:
    """``error`` is the partition's; a top-level error arrives as `TopLevelError`."""

    error: int
    epoch: types.Epoch
    leader_id: types.NodeId | None
    vote_granted: bool
    listeners: types.Listeners = types.NO_LISTENERS


@value(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochRequest:
    """A leader announces itself; ``voter`` is the replica key that it means to address."""

    epoch: types.Epoch
    leader_id: types.NodeId
    voter: types.ReplicaKey | None
    listeners: types.Listeners


@value(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochResponse:
    """Answer to BeginQuorumEpoch."""

    error: int
    epoch: types.Epoch
    leader_id: types.NodeId | None
    listeners: types.Listeners = types.NO_LISTENERS


@value(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochRequest:
    """A leader resigns; ``successors`` are the voters, most caught up first (version 0: ids only)."""

    epoch: types.Epoch
    leader_id: types.NodeId
    successors: tuple[types.ReplicaKey, ...]
    listeners: types.Listeners = types.NO_LISTENERS


@value(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochResponse:
    """Answer to EndQuorumEpoch."""

    error: int
    epoch: types.Epoch
    leader_id: types.NodeId | None
    listeners: types.Listeners = types.NO_LISTENERS


@value(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """A replica asks for records from ``fetch_offset``, which also acknowledges all records below it.

    ``replica`` is None for an observer without id. ``high_watermark`` is the replica's own: -1 when it knows none, None
    when the request's version has no such field (KIP-1166). ``is_committed_only``: it wants no record before that is
    committed (ADR 118).
    """

    replica: types.ReplicaKey | None
    epoch: types.Epoch
    fetch_offset: types.Offset
    last_fetched_epoch: types.Epoch
    wait_ms_max: int
    size_bytes_max: int
    high_watermark: int | None
    is_committed_only: bool = False


@value(frozen=True, slots=True, kw_only=True)
class FetchedBatch:
    """Header of one fetched batch with a valid CRC; the host holds its bytes.

    ``membership`` are the voter set and kraft.version records of a control batch, by offset (KIP-853).
    """

    base_offset: types.Offset
    end_offset: types.Offset
    epoch: types.Epoch
    size_bytes: int
    membership: tuple[tuple[types.Offset, types.MembershipRecord], ...] = ()


@value(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """Records, or the diverging epoch (``diverging``), or the snapshot to fetch instead.

    ``diverging`` holds the leader's last epoch <= the requested one and that epoch's end offset. The host adds
    ``batch_start``: the start of the batch in this replica's log that contains that offset, or the offset itself
    outside the log. ``batches`` are the whole and valid batches, in order; ``invalid`` says what is wrong with the
    bytes after them, if anything. The leader leaves ``batches`` empty: see `effects.ReplyFetch`.
    """

    error: int
    epoch: types.Epoch
    leader_id: types.NodeId | None
    high_watermark: types.Offset | None
    log_start_offset: types.Offset
    diverging: types.OffsetAndEpoch | None = None
    batch_start: types.Offset | None = None
    snapshot_id: types.OffsetAndEpoch | None = None
    batches: tuple[FetchedBatch, ...] = ()
    invalid: str | None = None
    listeners: types.Listeners = types.NO_LISTENERS


@value(frozen=True, slots=True, kw_only=True)
class FetchSnapshotRequest:
    """Bytes of a snapshot file from ``position`` (KIP-630)."""

    replica: types.ReplicaKey | None
    epoch: types.Epoch
    snapshot_id: types.OffsetAndEpoch
    position: int
    size_bytes_max: int


@value(frozen=True, slots=True, kw_only=True)
class FetchSnapshotResponse:
    """``leader_id`` and ``epoch`` are None where Kafka leaves CurrentLeader out.

    ``size_bytes`` is the size of the whole snapshot, ``received_bytes`` the number of bytes that arrived from
    ``position`` on; the host holds those bytes. The leader leaves ``received_bytes`` empty: see
    `effects.ReplySnapshot`.
    """

    error: int
    epoch: types.Epoch | None
    leader_id: types.NodeId | None
    snapshot_id: types.OffsetAndEpoch
    size_bytes: int = 0
    position: int = 0
    received_bytes: int = 0
    listeners: types.Listeners = types.NO_LISTENERS


@value(frozen=True, slots=True, kw_only=True)
class DescribeQuorumRequest:
    """An operator asks the leader about its quorum; ``asked_as`` is another topic name that the request used."""

    asked_as: str | None = None


@value(frozen=True, slots=True, kw_only=True)
class DescribedReplica:
    """One row of DescribeQuorum: offsets -1 when unknown, timestamps in wall ms, -1 when unknown."""

    key: types.ReplicaKey
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


@value(frozen=True, slots=True, kw_only=True)
class DescribeQuorumResponse:
    """``nodes`` are the voters with their listeners; with an error, all but ``asked_as`` (the request's) is empty."""

    error: int
    asked_as: str | None = None
    error_message: str | None = None
    leader_id: types.NodeId | None = None
    epoch: types.Epoch = types.EPOCH_ZERO
    high_watermark: types.Offset | None = None
    voters: tuple[DescribedReplica, ...] = ()
    observers: tuple[DescribedReplica, ...] = ()
    nodes: tuple[types.Voter, ...] = ()


@value(frozen=True, slots=True, kw_only=True)
class AddVoterRequest:
    """AddRaftVoter (KIP-853, KIP-1186)."""

    voter: types.ReplicaKey
    listeners: types.Listeners
    timeout_ms: int
    ack_when_committed: bool = True


@value(frozen=True, slots=True, kw_only=True)
class RemoveVoterRequest:
    """RemoveRaftVoter (KIP-853)."""

    voter: types.ReplicaKey


MAY_BE_MADE_YET: Final = "may still take effect"
"""Appears in error texts when the outcome is open: the change was started and may still commit."""


@value(frozen=True, slots=True, kw_only=True)
class ChangeVoterResponse:
    """Answer to AddRaftVoter, RemoveRaftVoter and UpdateFeatures."""

    error: int
    error_message: str | None = None


@value(frozen=True, slots=True, kw_only=True)
class UpdateVoterRequest:
    """UpdateRaftVoter: a voter tells the leader its listeners and supported levels (KIP-853).

    ``error``: it must be refused, by an answer that names the leader.
    """

    epoch: types.Epoch
    voter: types.ReplicaKey
    listeners: types.Listeners
    kraft_version: types.VersionRange
    error: int = 0


@value(frozen=True, slots=True, kw_only=True)
class UpdateVoterResponse:
    """Answer to UpdateRaftVoter with the current leader and its endpoint, if known."""

    error: int
    epoch: types.Epoch
    leader_id: types.NodeId | None
    listeners: types.Listeners = types.NO_LISTENERS


@value(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesRequest:
    """An operator wants kraft.version at this level, or asks whether that is possible (KIP-584)."""

    kraft_version: int
    validate_only: bool = False


@value(frozen=True, slots=True, kw_only=True)
class TransferLeadershipRequest:
    """An operator wants this voter to lead; the leader waits ``timeout_ms`` for it to have the whole log."""

    target_id: types.NodeId
    timeout_ms: int


@value(frozen=True, slots=True, kw_only=True)
class TransferLeadershipResponse:
    """The outcome of the transfer, and the leader that the answering node knows."""

    error: int
    error_message: str | None
    leader_id: types.NodeId | None
    epoch: types.Epoch


@value(frozen=True, slots=True, kw_only=True)
class ApiVersionsRequest:
    """A leader asks a replica which levels it supports before it makes it a voter (KIP-853).

    ``node_id`` is the one that it means: pykraft's nodes refuse to answer for another one (KIP-1242).
    """

    node_id: types.NodeId


@value(frozen=True, slots=True, kw_only=True)
class ApiVersionsResponse:
    """``kraft_version`` is the range of levels that the replica supports; None when it does not name the feature."""

    error: int
    kraft_version: types.VersionRange | None = None


@value(frozen=True, slots=True, kw_only=True)
class TopLevelError:
    """A response that holds only an error above the partition level."""

    error: int


Request: TypeAlias = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | DescribeQuorumRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | UpdateVoterRequest
    | UpdateFeaturesRequest
    | TransferLeadershipRequest
    | ApiVersionsRequest
)
Response: TypeAlias = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | DescribeQuorumResponse
    | ChangeVoterResponse
    | UpdateVoterResponse
    | TransferLeadershipResponse
    | ApiVersionsResponse
    | TopLevelError
)

NONE = int(ErrorCode.NONE)
