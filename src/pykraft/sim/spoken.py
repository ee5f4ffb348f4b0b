"""What a frame says in its sender's name, for the oracle that listens on the wire.

Only the quorum's own requests and the answers to votes are read: every epoch in them is one that the sender
must have on disk, and a vote, one's own or a granted one, is a promise that must be there too.

Source: Kafka's message definitions of Vote, BeginQuorumEpoch, EndQuorumEpoch and Fetch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pykraft.protocol.api import decode_request_body, decode_request_header, decode_response
from pykraft.protocol.messages import ApiKey
from pykraft.types import Buffer

FRAME_LENGTH_SIZE_BYTES = 4
EPOCH_FIELDS = {
    ApiKey.VOTE: "replica_epoch",
    ApiKey.BEGIN_QUORUM_EPOCH: "leader_epoch",
    ApiKey.END_QUORUM_EPOCH: "leader_epoch",
    ApiKey.FETCH: "current_leader_epoch",
}
_VOTE_BYTES = ApiKey.VOTE.to_bytes(2, "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """An epoch, and whom the sender votes for in it; None when the frame is no vote."""

    epoch: int
    candidate_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAsked:
    """A Vote request whose answer is still to come."""

    version: int
    epoch: int
    candidate_id: int
    is_pre_vote: bool


def spoken_in_request(parts: Sequence[Buffer]) -> Spoken | None:
    """What the sender of this request says; None for requests without an epoch."""
    frame = b"".join(parts)[FRAME_LENGTH_SIZE_BYTES:]
    header = decode_request_header(frame)
    api_key = ApiKey(header.api_key)
    field = EPOCH_FIELDS.get(api_key)
    if field is None:
        return None
    partition = decode_request_body(header, frame)["topics"][0]["partitions"][0]
    is_vote = api_key is ApiKey.VOTE and not partition.get("pre_vote")
    return Spoken(epoch=partition[field], candidate_id=partition["replica_id"] if is_vote else None)


def vote_asked(frame: bytes) -> VoteAsked | None:
    """The question in this request; None when it is not about a vote."""
    if not frame.startswith(_VOTE_BYTES):
        return None
    header = decode_request_header(frame)
    partition = decode_request_body(header, frame)["topics"][0]["partitions"][0]
    return VoteAsked(
        version=header.api_version,
        epoch=partition["replica_epoch"],
        candidate_id=partition["replica_id"],
        is_pre_vote=bool(partition.get("pre_vote")),
    )


def spoken_in_answer(asked: VoteAsked, parts: Sequence[Buffer]) -> Spoken | None:
    """What the answer to a vote says; None when it refuses the request as a whole."""
    frame = b"".join(parts)[FRAME_LENGTH_SIZE_BYTES:]
    _, body = decode_response(ApiKey.VOTE, asked.version, frame)
    if body["error_code"]:
        return None
    partition = body["topics"][0]["partitions"][0]
    is_promise = partition["vote_granted"] and not asked.is_pre_vote
    if is_promise:
        return Spoken(epoch=asked.epoch, candidate_id=asked.candidate_id)
    return Spoken(epoch=partition["leader_epoch"])
