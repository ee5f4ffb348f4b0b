"""Which epoch a frame speaks of in its sender's name, for the oracle that listens on the wire.

Only the requests of the quorum are read: everything in them that is called an epoch is the sender's own.

Source: Kafka's message definitions of Vote, BeginQuorumEpoch, EndQuorumEpoch and Fetch.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykraft.protocol.api import decode_request_body, decode_request_header
from pykraft.protocol.messages import ApiKey
from pykraft.types import Buffer

FRAME_LENGTH_SIZE_BYTES = 4
EPOCH_FIELDS = {
    ApiKey.VOTE: "replica_epoch",
    ApiKey.BEGIN_QUORUM_EPOCH: "leader_epoch",
    ApiKey.END_QUORUM_EPOCH: "leader_epoch",
    ApiKey.FETCH: "current_leader_epoch",
}


def spoken_epoch(parts: Sequence[Buffer]) -> int | None:
    """The sender's epoch in this request; None for requests without one."""
    frame = b"".join(parts)[FRAME_LENGTH_SIZE_BYTES:]
    header = decode_request_header(frame)
    field = EPOCH_FIELDS.get(ApiKey(header.api_key))
    if field is None:
        return None
    body = decode_request_body(header, frame)
    epoch: int = body["topics"][0]["partitions"][0][field]
    return epoch
