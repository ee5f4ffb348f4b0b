"""Messages that fetch: records of the log, and bytes of a snapshot.

Source: KIP-595, KIP-630; Kafka's definitions of these messages.
"""

from pykraft.protocol.messages.common import NODE_ENDPOINTS, brokers_field
from pykraft.protocol.schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UUID,
    Array,
    Field,
    Message,
    array_of,
    struct_of,
)

TOPICS_MAX = 16
"""Most topics in a request: a replica asks for one, a consumer may ask under several names."""
PARTITIONS_MAX = 4
"""Most partitions of a topic in a request."""
HIGH_WATERMARK_NOT_TOLD = 2**63 - 1
"""A request's high watermark when its sender, or its version, does not tell it."""

_TOPIC = (
    Field("topic", STRING, "0-12", ignorable=True),
    Field("topic_id", UUID, "13+", ignorable=True),
)

FETCH_REQUEST = Message.of(
    "FetchRequest",
    "4-18",
    "12+",
    Field("cluster_id", STRING, "12+", default=None, nullable=True, tag=0, ignorable=True),
    Field("replica_id", INT32, "0-14", default=-1),
    struct_of(
        "replica_state",
        Field("replica_id", INT32, default=-1),
        Field("replica_epoch", INT64, default=-1),
        versions="15+",
        tag=1,
    ),
    Field("max_wait_ms", INT32),
    Field("min_bytes", INT32),
    Field("max_bytes", INT32, default=2**31 - 1),
    Field("isolation_level", INT8),
    Field("session_id", INT32, "7+", ignorable=True),
    Field("session_epoch", INT32, "7+", default=-1, ignorable=True),
    array_of(
        "topics",
        *_TOPIC,
        array_of(
            "partitions",
            Field("partition", INT32),
            Field("current_leader_epoch", INT32, "9+", default=-1, ignorable=True),
            Field("fetch_offset", INT64),
            Field("last_fetched_epoch", INT32, "12+", default=-1),
            Field("log_start_offset", INT64, "5+", default=-1, ignorable=True),
            Field("partition_max_bytes", INT32),
            Field("replica_directory_id", UUID, "17+", tag=0, ignorable=True),
            Field("high_watermark", INT64, "18+", default=HIGH_WATERMARK_NOT_TOLD, tag=1, ignorable=True),
            count_max=PARTITIONS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
    array_of(
        "forgotten_topics_data",
        *_TOPIC,
        Field("partitions", Array(INT32, PARTITIONS_MAX)),
        versions="7+",
        count_max=TOPICS_MAX,
    ),
    Field("rack_id", STRING, "11+", ignorable=True),
)
"""Fetch (1): records from an offset on, for followers, observers and consumers. Versions that matter to the quorum: 12
is flexible and adds the epoch of the last fetched record, diverging epochs, snapshot ids and the cluster id (KIP-595,
KIP-630); 13 names topics by id (KIP-516); 15 moves the replica id into a tagged struct (KIP-903); 16 adds endpoints; 17
the directory id (KIP-853); 18 the follower's high watermark (KIP-1166), where int64-max means "not told". Two traps: a
SnapshotId has its end offset *before* its epoch, a DivergingEpoch after it; and the port of an endpoint is int32 here
but uint16 elsewhere.
"""

FETCH_RESPONSE = Message.of(
    "FetchResponse",
    "4-18",
    "12+",
    Field("throttle_time_ms", INT32),
    Field("error_code", INT16, "7+", ignorable=True),
    Field("session_id", INT32, "7+"),
    array_of(
        "responses",
        *_TOPIC,
        array_of(
            "partitions",
            Field("partition_index", INT32),
            Field("error_code", INT16),
            Field("high_watermark", INT64),
            Field("last_stable_offset", INT64, default=-1),
            Field("log_start_offset", INT64, "5+", default=-1, ignorable=True),
            struct_of(
                "diverging_epoch",
                Field("epoch", INT32, default=-1),
                Field("end_offset", INT64, default=-1),
                versions="12+",
                tag=0,
                ignorable=True,
            ),
            struct_of(
                "current_leader",
                Field("leader_id", INT32, default=-1),
                Field("leader_epoch", INT32, default=-1),
                versions="12+",
                tag=1,
                ignorable=True,
            ),
            struct_of(
                "snapshot_id",
                Field("end_offset", INT64, default=-1),
                Field("epoch", INT32, default=-1),
                versions="12+",
                tag=2,
                ignorable=True,
            ),
            array_of(
                "aborted_transactions",
                Field("producer_id", INT64),
                Field("first_offset", INT64),
                nullable=True,
                count_max=1,
            ),
            Field("preferred_read_replica", INT32, "11+", default=-1),
            Field("records", RECORDS, nullable=True),
            count_max=PARTITIONS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
    brokers_field("16+", ignorable=True),
)

_SNAPSHOT_ID = struct_of("snapshot_id", Field("end_offset", INT64), Field("epoch", INT32))

FETCH_SNAPSHOT_REQUEST = Message.of(
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
"""FetchSnapshot (59): bytes of a snapshot file from a position on. Version 1 adds the replica's directory id and the
endpoints (KIP-853). Two traps: an absent CurrentLeader reads as leader 0 in epoch 0; and the records of an error may
not be null, so Kafka's own leader never manages to send such an answer. Ours are empty.
"""

FETCH_SNAPSHOT_RESPONSE = Message.of(
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
