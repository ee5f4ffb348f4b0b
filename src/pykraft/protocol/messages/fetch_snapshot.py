"""FetchSnapshot (59): bytes of a snapshot file from a position on.

Version 1 adds the replica's directory id and the endpoints (KIP-853). Two traps: an absent CurrentLeader reads as
leader 0 in epoch 0; and the records of an error may not be null, so Kafka's own leader never manages to send such an
answer. Ours are empty.

Source: KIP-630 §FetchSnapshot; Kafka's FetchSnapshotRequest and FetchSnapshotResponse definitions.
"""

from pykraft.protocol.messages.common import NODE_ENDPOINTS
from pykraft.protocol.schema import INT16, INT32, INT64, RECORDS, STRING, UUID, Field, Message, array_of, struct_of

_SNAPSHOT_ID = struct_of("snapshot_id", Field("end_offset", INT64), Field("epoch", INT32))

REQUEST = Message.of(
    "FetchSnapshotRequest",
    "0-1",
    "0+",
    Field("cluster_id", STRING, default=None, nullable=True, tag=0),
    Field("replica_id", INT32, default=-1),
    Field("max_bytes", INT32, default=2**31 - 1),
    array_of(
        "topics",
        Field("name", STRING),
        array_of(
            "partitions",
            Field("partition", INT32),
            Field("current_leader_epoch", INT32),
            _SNAPSHOT_ID,
            Field("position", INT64),
            Field("replica_directory_id", UUID, "1+", tag=0, ignorable=True),
            count_max=1,
        ),
        count_max=1,
    ),
)

RESPONSE = Message.of(
    "FetchSnapshotResponse",
    "0-1",
    "0+",
    Field("throttle_time_ms", INT32),
    Field("error_code", INT16),
    array_of(
        "topics",
        Field("name", STRING),
        array_of(
            "partitions",
            Field("index", INT32),
            Field("error_code", INT16),
            _SNAPSHOT_ID,
            struct_of("current_leader", Field("leader_id", INT32), Field("leader_epoch", INT32), tag=0),
            Field("size", INT64),
            Field("position", INT64),
            Field("unaligned_records", RECORDS),
            count_max=1,
        ),
        count_max=1,
    ),
    NODE_ENDPOINTS,
)
