"""OffsetForLeaderEpoch (23): where an epoch ends; a consumer finds out with it whether records were truncated.

Source: KIP-101, KIP-320; Kafka's OffsetForLeaderEpochRequest and OffsetForLeaderEpochResponse definitions.
"""

from pykraft.protocol.schema import INT16, INT32, INT64, STRING, Field, Message, array_of

TOPICS_MAX = 16
"""Most topics, and partitions of each, in a request."""

REQUEST = Message.of(
    "OffsetForLeaderEpochRequest",
    "2-4",
    "4+",
    Field("replica_id", INT32, "3+", default=-2, ignorable=True),
    array_of(
        "topics",
        Field("topic", STRING),
        array_of(
            "partitions",
            Field("partition", INT32),
            Field("current_leader_epoch", INT32, default=-1, ignorable=True),
            Field("leader_epoch", INT32),
            count_max=TOPICS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
)

RESPONSE = Message.of(
    "OffsetForLeaderEpochResponse",
    "2-4",
    "4+",
    Field("throttle_time_ms", INT32, ignorable=True),
    array_of(
        "topics",
        Field("topic", STRING),
        array_of(
            "partitions",
            Field("error_code", INT16),
            Field("partition", INT32),
            Field("leader_epoch", INT32, default=-1, ignorable=True),
            Field("end_offset", INT64, default=-1),
            count_max=TOPICS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
)
