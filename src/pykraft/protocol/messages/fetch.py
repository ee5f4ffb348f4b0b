"""Messages that fetch: records of the log, and bytes of a snapshot.

Source: KIP-595, KIP-630; Kafka's definitions of these messages.
"""

from pykraft.protocol import schema
from pykraft.protocol.messages.common import NODE_ENDPOINTS, brokers_field

TOPICS_MAX = 16
"""Most topics in a request: a replica asks for one, a consumer may ask under several names."""
PARTITIONS_MAX = 4
"""Most partitions of a topic in a request."""
HIGH_WATERMARK_NOT_TOLD = 2**63 - 1
"""A request's high watermark when its sender, or its version, does not tell it."""

_TOPIC = (
    schema.Field("topic", schema.STRING, "0-12", ignorable=True),
    schema.Field("topic_id", schema.UUID, "13+", ignorable=True),
)

FETCH_REQUEST = schema.Message.of(
    "FetchRequest",
    "4-18",
    "12+",
    schema.Field("cluster_id", schema.STRING, "12+", default=None, nullable=True, tag=0, ignorable=True),
    schema.Field("replica_id", schema.INT32, "0-14", default=-1),
    schema.struct_of(
        "replica_state",
        schema.Field("replica_id", schema.INT32, default=-1),
        schema.Field("replica_epoch", schema.INT64, default=-1),
        versions="15+",
        tag=1,
    ),
    schema.Field("max_wait_ms", schema.INT32),
    schema.Field("min_bytes", schema.INT32),
    schema.Field("max_bytes", schema.INT32, default=2**31 - 1),
    schema.Field("isolation_level", schema.INT8),
    schema.Field("session_id", schema.INT32, "7+", ignorable=True),
    schema.Field("session_epoch", schema.INT32, "7+", default=-1, ignorable=True),
    schema.array_of(
        "topics",
        *_TOPIC,
        schema.array_of(
            "partitions",
            schema.Field("partition", schema.INT32),
            schema.Field("current_leader_epoch", schema.INT32, "9+", default=-1, ignorable=True),
            schema.Field("fetch_offset", schema.INT64),
            schema.Field("last_fetched_epoch", schema.INT32, "12+", default=-1),
            schema.Field("log_start_offset", schema.INT64, "5+", default=-1, ignorable=True),
            schema.Field("partition_max_bytes", schema.INT32),
            schema.Field("replica_directory_id", schema.UUID, "17+", tag=0, ignorable=True),
            schema.Field("high_watermark", schema.INT64, "18+", default=HIGH_WATERMARK_NOT_TOLD, tag=1, ignorable=True),
            count_max=PARTITIONS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
    schema.array_of(
        "forgotten_topics_data",
        *_TOPIC,
        schema.Field("partitions", schema.Array(schema.INT32, PARTITIONS_MAX)),
        versions="7+",
        count_max=TOPICS_MAX,
    ),
    schema.Field("rack_id", schema.STRING, "11+", ignorable=True),
)
"""Fetch (1): records from an offset on, for followers, observers and consumers. Versions that matter to the quorum: 12
is flexible and adds the epoch of the last fetched record, diverging epochs, snapshot ids and the cluster id (KIP-595,
KIP-630); 13 names topics by id (KIP-516); 15 moves the replica id into a tagged struct (KIP-903); 16 adds endpoints; 17
the directory id (KIP-853); 18 the follower's high watermark (KIP-1166), where int64-max means "not told". Two traps: a
SnapshotId has its end offset *before* its epoch, a DivergingEpoch after it; and the port of an endpoint is int32 here
but uint16 elsewhere.
"""

FETCH_RESPONSE = schema.Message.of(
    "FetchResponse",
    "4-18",
    "12+",
    schema.Field("throttle_time_ms", schema.INT32),
    schema.Field("error_code", schema.INT16, "7+", ignorable=True),
    schema.Field("session_id", schema.INT32, "7+"),
    schema.array_of(
        "responses",
        *_TOPIC,
        schema.array_of(
            "partitions",
            schema.Field("partition_index", schema.INT32),
            schema.Field("error_code", schema.INT16),
            schema.Field("high_watermark", schema.INT64),
            schema.Field("last_stable_offset", schema.INT64, default=-1),
            schema.Field("log_start_offset", schema.INT64, "5+", default=-1, ignorable=True),
            schema.struct_of(
                "diverging_epoch",
                schema.Field("epoch", schema.INT32, default=-1),
                schema.Field("end_offset", schema.INT64, default=-1),
                versions="12+",
                tag=0,
                ignorable=True,
            ),
            schema.struct_of(
                "current_leader",
                schema.Field("leader_id", schema.INT32, default=-1),
                schema.Field("leader_epoch", schema.INT32, default=-1),
                versions="12+",
                tag=1,
                ignorable=True,
            ),
            schema.struct_of(
                "snapshot_id",
                schema.Field("end_offset", schema.INT64, default=-1),
                schema.Field("epoch", schema.INT32, default=-1),
                versions="12+",
                tag=2,
                ignorable=True,
            ),
            schema.array_of(
                "aborted_transactions",
                schema.Field("producer_id", schema.INT64),
                schema.Field("first_offset", schema.INT64),
                nullable=True,
                count_max=1,
            ),
            schema.Field("preferred_read_replica", schema.INT32, "11+", default=-1),
            schema.Field("records", schema.RECORDS, nullable=True),
            count_max=PARTITIONS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
    brokers_field("16+", ignorable=True),
)

_SNAPSHOT_ID = schema.struct_of(
    "snapshot_id", schema.Field("end_offset", schema.INT64), schema.Field("epoch", schema.INT32)
)

FETCH_SNAPSHOT_REQUEST = schema.Message.of(
    "FetchSnapshotRequest",
    "0-1",
    "0+",
    schema.Field("cluster_id", schema.STRING, default=None, nullable=True, tag=0),
    schema.Field("replica_id", schema.INT32, default=-1),
    schema.Field("max_bytes", schema.INT32, default=2**31 - 1),
    schema.array_of(
        "topics",
        schema.Field("name", schema.STRING),
        schema.array_of(
            "partitions",
            schema.Field("partition", schema.INT32),
            schema.Field("current_leader_epoch", schema.INT32),
            _SNAPSHOT_ID,
            schema.Field("position", schema.INT64),
            schema.Field("replica_directory_id", schema.UUID, "1+", tag=0, ignorable=True),
            count_max=1,
        ),
        count_max=1,
    ),
)
"""FetchSnapshot (59): bytes of a snapshot file from a position on. Version 1 adds the replica's directory id and the
endpoints (KIP-853). Two traps: an absent CurrentLeader reads as leader 0 in epoch 0; and the records of an error may
not be null, so Kafka's own leader never manages to send such an answer. Ours are empty.
"""

FETCH_SNAPSHOT_RESPONSE = schema.Message.of(
    "FetchSnapshotResponse",
    "0-1",
    "0+",
    schema.Field("throttle_time_ms", schema.INT32),
    schema.Field("error_code", schema.INT16),
    schema.array_of(
        "topics",
        schema.Field("name", schema.STRING),
        schema.array_of(
            "partitions",
            schema.Field("index", schema.INT32),
            schema.Field("error_code", schema.INT16),
            _SNAPSHOT_ID,
            schema.struct_of(
                "current_leader",
                schema.Field("leader_id", schema.INT32),
                schema.Field("leader_epoch", schema.INT32),
                tag=0,
            ),
            schema.Field("size", schema.INT64),
            schema.Field("position", schema.INT64),
            schema.Field("unaligned_records", schema.RECORDS),
            count_max=1,
        ),
        count_max=1,
    ),
    NODE_ENDPOINTS,
)
