"""Builds messages from plain numbers: valid by default, so that a test names only the fields that matter."""

from collections.abc import Sequence

from pykraft.core import messages
from pykraft.core.messages import FetchedBatch
from pykraft.types import (
    NO_LISTENERS,
    Damage,
    Epoch,
    Listeners,
    NodeId,
    Offset,
    OffsetAndEpoch,
    ReplicaKey,
    VersionRange,
)
from tests.core.replicas import key, listeners


def place(offset: int, epoch: int) -> OffsetAndEpoch:
    return OffsetAndEpoch(Offset(offset), Epoch(epoch))


def optional_id(node_id: int | None) -> NodeId | None:
    return None if node_id is None else NodeId(node_id)


def damage(offset: int, *, path: str = "00000000000000000000.log") -> Damage:
    """A batch at this offset whose bytes are wrong."""
    return Damage(path=path, position=100 * offset, start_offset=Offset(offset), expected="CRC 1", found="CRC 2")


def vote(
    *,
    epoch: int = 6,
    candidate: int = 3,
    end: tuple[int, int] = (10, 3),
    pre_vote: bool = False,
    voter: ReplicaKey | None = None,
) -> messages.VoteRequest:
    return messages.VoteRequest(
        epoch=Epoch(epoch),
        candidate=key(candidate) if candidate >= 0 else ReplicaKey(NodeId(candidate)),
        voter=voter,
        last=place(*end),
        pre_vote=pre_vote,
    )


def voted(
    *,
    granted: bool = True,
    epoch: int = 5,
    leader_id: int | None = None,
    error: int = 0,
    told: Listeners = NO_LISTENERS,
) -> messages.VoteResponse:
    return messages.VoteResponse(
        error=error, epoch=Epoch(epoch), leader_id=optional_id(leader_id), vote_granted=granted, listeners=told
    )


def begin(
    *, epoch: int = 6, leader_id: int = 2, voter: ReplicaKey | None = None, told: Listeners | None = None
) -> messages.BeginQuorumEpochRequest:
    return messages.BeginQuorumEpochRequest(
        epoch=Epoch(epoch),
        leader_id=NodeId(leader_id),
        voter=voter,
        listeners=listeners(leader_id) if told is None else told,
    )


def begun(*, epoch: int = 5, leader_id: int | None = 1, error: int = 0) -> messages.BeginQuorumEpochResponse:
    return messages.BeginQuorumEpochResponse(error=error, epoch=Epoch(epoch), leader_id=optional_id(leader_id))


def end(
    *, epoch: int = 5, leader_id: int = 2, successors: Sequence[int] = (3, 1), told: Listeners = NO_LISTENERS
) -> messages.EndQuorumEpochRequest:
    return messages.EndQuorumEpochRequest(
        epoch=Epoch(epoch),
        leader_id=NodeId(leader_id),
        successors=tuple(key(node_id) for node_id in successors),
        listeners=told,
    )


def ended(*, epoch: int = 5, leader_id: int | None = 1, error: int = 0) -> messages.EndQuorumEpochResponse:
    return messages.EndQuorumEpochResponse(error=error, epoch=Epoch(epoch), leader_id=optional_id(leader_id))


def fetch(
    *,
    replica: int | ReplicaKey | None = 2,
    epoch: int = 5,
    at: tuple[int, int] = (10, 3),
    wait_ms: int = 500,
    high_watermark: int | None = -1,
) -> messages.FetchRequest:
    return messages.FetchRequest(
        replica=key(replica) if isinstance(replica, int) else replica,
        epoch=Epoch(epoch),
        fetch_offset=Offset(at[0]),
        last_fetched_epoch=Epoch(at[1]),
        wait_ms_max=wait_ms,
        size_bytes_max=1_000,
        high_watermark=high_watermark,
    )


def batch(base: int, end_offset: int, epoch: int) -> FetchedBatch:
    return FetchedBatch(base_offset=Offset(base), end_offset=Offset(end_offset), epoch=Epoch(epoch), size_bytes=100)


def fetched(
    *batches: FetchedBatch,
    epoch: int = 5,
    leader_id: int | None = 2,
    error: int = 0,
    high_watermark: int | None = None,
    diverging: tuple[int, ...] | None = None,
    snapshot: tuple[int, int] | None = None,
    invalid: str | None = None,
    told: Listeners = NO_LISTENERS,
) -> messages.FetchResponse:
    """``diverging`` is offset and epoch, and perhaps where the own batch begins."""
    return messages.FetchResponse(
        error=error,
        epoch=Epoch(epoch),
        leader_id=optional_id(leader_id),
        high_watermark=None if high_watermark is None else Offset(high_watermark),
        log_start_offset=Offset(0),
        diverging=place(*diverging[:2]) if diverging else None,
        batch_start=Offset(diverging[2]) if diverging and len(diverging) > 2 else None,
        snapshot_id=place(*snapshot) if snapshot else None,
        batches=batches,
        invalid=invalid,
        listeners=told,
    )


def fetch_snapshot(
    *,
    replica: int | None = 2,
    epoch: int = 5,
    snapshot: tuple[int, int] = (3, 1),
    position: int = 0,
    size_bytes_max: int = 1_000,
) -> messages.FetchSnapshotRequest:
    return messages.FetchSnapshotRequest(
        replica=None if replica is None else key(replica),
        epoch=Epoch(epoch),
        snapshot_id=place(*snapshot),
        position=position,
        size_bytes_max=size_bytes_max,
    )


def add_voter(*, voter: ReplicaKey | None = None, told: Listeners | None = None) -> messages.AddVoterRequest:
    return messages.AddVoterRequest(
        voter=voter or key(4), listeners=listeners(4) if told is None else told, timeout_ms=1_000
    )


def update_voter(
    *,
    epoch: int = 5,
    voter: ReplicaKey | None = None,
    told: Listeners | None = None,
    versions: tuple[int, int] = (0, 1),
) -> messages.UpdateVoterRequest:
    return messages.UpdateVoterRequest(
        epoch=Epoch(epoch),
        voter=voter or key(2),
        listeners=listeners(2) if told is None else told,
        kraft_version=VersionRange(*versions),
    )


def sliced(
    *,
    epoch: int | None = 5,
    leader_id: int | None = 2,
    error: int = 0,
    snapshot: tuple[int, int] = (30, 5),
    position: int = 0,
    received_bytes: int = 10,
    size_bytes: int = 25,
) -> messages.FetchSnapshotResponse:
    return messages.FetchSnapshotResponse(
        error=error,
        epoch=None if epoch is None else Epoch(epoch),
        leader_id=optional_id(leader_id),
        snapshot_id=place(*snapshot),
        size_bytes=size_bytes,
        position=position,
        received_bytes=received_bytes,
    )
