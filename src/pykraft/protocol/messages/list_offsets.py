"""ListOffsets (2): the first or last offset of a partition, or the first one of a time.

Versions that matter: 4 adds leader epochs; 7 asks for the record of the newest time (-3, KIP-734); 8 for the first
offset on a broker's own disk (-4) and 9 for the last one in remote storage (-5), both KIP-405 and KIP-1005; 10 adds a
time limit; 11 asks for what waits for its upload (-6, KIP-1023).

Source: Kafka's ListOffsetsRequest and ListOffsetsResponse definitions.
"""

from pykraft.protocol.schema import INT8, INT16, INT32, INT64, STRING, Field, Message, array_of

TOPICS_MAX = 16
"""Most topics, and partitions of each, in a request."""

REQUEST = Message.of(
    "ListOffsetsRequest",
    "1-11",
    "6+",
    Field("replica_id", INT32),
    Field("isolation_level", INT8, "2+"),
    array_of(
        "topics",
        Field("name", STRING),
        array_of(
            "partitions",
            Field("partition_index", INT32),
            Field("current_leader_epoch", INT32, "4+", default=-1, ignorable=True),
            Field("timestamp", INT64),
            count_max=TOPICS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
    Field("timeout_ms", INT32, "10+", ignorable=True),
)

RESPONSE = Message.of(
    "ListOffsetsResponse",
    "1-11",
    "6+",
    Field("throttle_time_ms", INT32, "2+", ignorable=True),
    array_of(
        "topics",
        Field("name", STRING),
        array_of(
            "partitions",
            Field("partition_index", INT32),
            Field("error_code", INT16),
            Field("timestamp", INT64, default=-1, ignorable=True),
            Field("offset", INT64, default=-1, ignorable=True),
            Field("leader_epoch", INT32, "4+", default=-1, ignorable=True),
            count_max=TOPICS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
)
