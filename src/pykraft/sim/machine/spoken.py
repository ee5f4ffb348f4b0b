"""What a frame says in its sender's name, for the oracles that listen on the wire.

Only the quorum's own requests and answers are read: every epoch in them is one that the sender must have on disk; a
vote, one's own or a granted one, is a promise that must be there too; the offset of a Fetch says what its sender
holds durably, and the position of a FetchSnapshot how much of a snapshot it has. The answer to a Fetch hands on a part
of its sender's log.

Source: Kafka's message definitions of Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch and FetchSnapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pykraft.protocol.api import RequestHeader, decode_request_body, decode_request_header, decode_response
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.types import ZERO_UUID, Buffer, Epoch, Offset, OffsetAndEpoch

FRAME_LENGTH_SIZE_BYTES = 4
EPOCH_FIELDS = {
    ApiKey.VOTE: "replica_epoch",
    ApiKey.BEGIN_QUORUM_EPOCH: "leader_epoch",
    ApiKey.END_QUORUM_EPOCH: "leader_epoch",
    ApiKey.FETCH: "current_leader_epoch",
    ApiKey.FETCH_SNAPSHOT: "current_leader_epoch",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """Where a log ends (exclusive), and the epoch of its last record: what two voters compare."""

    epoch: int
    offset: int

    def is_at_least(self, other: LogEnd) -> bool:
        """Raft paper §5.4.1: the later epoch first, then the longer log."""
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAsked:
    """A Vote request whose answer is still to come; ``voter_log`` is the log of the one asked, when it was asked."""

    version: int
    epoch: int
    candidate_id: int
    is_pre_vote: bool
    candidate_log: LogEnd
    voter_log: LogEnd | None = None
    is_voter_damaged: bool = False
    voter_directory_id: bytes | None = None
    """Which disk of the voter is asked; None for any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceAsked:
    """Which bytes of a snapshot a FetchSnapshot asks for: those from this position on."""

    snapshot_id: OffsetAndEpoch
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """An epoch, and what else the sender stands for: each None unless the frame is about it."""

    epoch: int
    candidate_id: int | None = None
    """Whom the sender votes for in this epoch; a pre-vote is no vote."""
    granted: VoteAsked | None = None
    """The question that is answered with yes, a vote or a pre-vote."""
    fetched: LogEnd | None = None
    """What a Fetch says that its sender holds durably."""
    sliced: SliceAsked | None = None
    """What of a snapshot is asked for."""
    target_id: int | None = None
    """Who is asked; None for an answer."""
    leader_id: int | None = None
    """Who leads the epoch, as the answer to a Vote says."""
    confirms_leader: bool = False
    """True in an answer to BeginQuorumEpoch without an error: its leader still leads, as far as the sender knows."""
    served: Buffer = b""
    """The records in the answer to a Fetch."""
    served_epoch: int | None = None
    """The epoch of the Vote, BeginQuorumEpoch or EndQuorumEpoch that is answered without an error."""


def spoken_in_request(parts: Sequence[Buffer], target_id: int) -> Spoken | None:
    """What the sender of this request says to that node; None for requests without an epoch."""
    frame = b"".join(parts)[FRAME_LENGTH_SIZE_BYTES:]
    header = decode_request_header(frame)
    api_key = ApiKey(header.api_key)
    field = EPOCH_FIELDS.get(api_key)
    if field is None:
        return None
    body = decode_request_body(header, frame)
    partition = body["topics"][0]["partitions"][0]
    epoch = partition[field]
    if api_key is ApiKey.FETCH:
        if max(body["replica_id"], body["replica_state"]["replica_id"]) < 0:
            return Spoken(epoch=epoch, target_id=target_id)  # without an id it promises nothing
        log = LogEnd(epoch=partition["last_fetched_epoch"], offset=partition["fetch_offset"])
        return Spoken(epoch=epoch, fetched=log, target_id=target_id)
    if api_key is ApiKey.FETCH_SNAPSHOT:
        asked = partition["snapshot_id"]
        snapshot_id = OffsetAndEpoch(Offset(asked["end_offset"]), Epoch(asked["epoch"]))
        sliced = SliceAsked(snapshot_id=snapshot_id, position=partition["position"])
        return Spoken(epoch=epoch, sliced=sliced, target_id=target_id)
    is_vote = api_key is ApiKey.VOTE and not partition.get("pre_vote")
    return Spoken(epoch=epoch, candidate_id=partition["replica_id"] if is_vote else None, target_id=target_id)


def vote_asked(
    header: RequestHeader, frame: bytes, voter_log: LogEnd | None = None, *, is_voter_damaged: bool = False
) -> VoteAsked:
    """The question in this Vote request, put to a voter whose log ends there, and may be known to be damaged."""
    partition = decode_request_body(header, frame)["topics"][0]["partitions"][0]
    directory_id = bytes(partition.get("voter_directory_id", ZERO_UUID))
    return VoteAsked(
        version=header.api_version,
        epoch=partition["replica_epoch"],
        candidate_id=partition["replica_id"],
        is_pre_vote=bool(partition.get("pre_vote")),
        candidate_log=LogEnd(epoch=partition["last_offset_epoch"], offset=partition["last_offset"]),
        voter_log=voter_log,
        is_voter_damaged=is_voter_damaged,
        voter_directory_id=directory_id if directory_id != ZERO_UUID else None,
    )


def spoken_in_vote(asked: VoteAsked, parts: Sequence[Buffer]) -> Spoken | None:
    """What the answer to a vote says; None when it refuses the request as a whole."""
    partition = _answered(ApiKey.VOTE, asked.version, parts)
    if partition is None:
        return None
    served_epoch = None if partition["error_code"] else asked.epoch
    if not partition["vote_granted"]:
        leader_id = partition["leader_id"] if partition["leader_id"] >= 0 else None
        return Spoken(epoch=partition["leader_epoch"], leader_id=leader_id, served_epoch=served_epoch)
    if asked.is_pre_vote:
        return Spoken(epoch=partition["leader_epoch"], granted=asked, served_epoch=served_epoch)
    return Spoken(epoch=asked.epoch, candidate_id=asked.candidate_id, granted=asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """An EndQuorumEpoch request: who leads that epoch no more, and whether it names anybody to follow it."""

    epoch: int
    leader_id: int
    has_successors: bool


def departure(header: RequestHeader, frame: bytes) -> Departure:
    """What this EndQuorumEpoch request says."""
    partition = decode_request_body(header, frame)["topics"][0]["partitions"][0]
    successors = partition.get("preferred_successors") or partition.get("preferred_candidates")
    return Departure(epoch=partition["leader_epoch"], leader_id=partition["leader_id"], has_successors=bool(successors))


def asked_epoch(header: RequestHeader, frame: bytes) -> int:
    """The epoch in this request of the quorum."""
    epoch: int = decode_request_body(header, frame)["topics"][0]["partitions"][0][EPOCH_FIELDS[ApiKey(header.api_key)]]
    return epoch


def spoken_in_answer(header: RequestHeader, parts: Sequence[Buffer], epoch_asked: int | None = None) -> Spoken | None:
    """The epoch in the answer to this request of the quorum; None when it refuses the request as a whole."""
    partition = _answered(ApiKey(header.api_key), header.api_version, parts)
    if partition is None:
        return None
    if header.api_key == ApiKey.FETCH:
        epoch = max(partition["current_leader"]["leader_epoch"], 0)
        return Spoken(epoch=epoch, served=partition["records"] or b"")
    if header.api_key == ApiKey.FETCH_SNAPSHOT:
        return Spoken(epoch=max(partition["current_leader"]["leader_epoch"], 0))
    is_served = not partition["error_code"]
    return Spoken(
        epoch=partition["leader_epoch"],
        confirms_leader=is_served and header.api_key == ApiKey.BEGIN_QUORUM_EPOCH,
        served_epoch=epoch_asked if is_served else None,
    )


def _answered(api_key: ApiKey, version: int, parts: Sequence[Buffer]) -> Body | None:
    _, body = decode_response(api_key, version, b"".join(parts)[FRAME_LENGTH_SIZE_BYTES:])
    key = "responses" if api_key is ApiKey.FETCH else "topics"
    if body["error_code"] or not body[key]:
        return None
    partition: Body = body[key][0]["partitions"][0]
    return partition
