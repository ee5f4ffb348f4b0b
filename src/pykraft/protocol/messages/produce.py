"""Produce (0): append records to the log.

A request has a record batch for each partition. Versions that matter: 9 is flexible; 8 adds an error message; 10
names the current leader and its endpoint, in tagged fields (KIP-951).

Source: Kafka's ProduceRequest and ProduceResponse definitions.
"""

from pykraft.protocol.messages.common import brokers_field
from pykraft.protocol.schema import INT16, INT32, INT64, RECORDS, STRING, Field, Message, array_of, struct_of

TOPICS_MAX = 16
"""Most topics in a request."""
PARTITIONS_MAX = 4
"""Most partitions of a topic in a request."""

REQUEST = Message.of(
    "ProduceRequest",
    "3-12",
    "9+",
    Field("transactional_id", STRING, default=None, nullable=True),
    Field("acks", INT16),
    Field("timeout_ms", INT32),
    array_of(
        "topic_data",
        Field("name", STRING),
        array_of(
            "partition_data",
            Field("index", INT32),
            Field("records", RECORDS, nullable=True),
            count_max=PARTITIONS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
)

RESPONSE = Message.of(
    "ProduceResponse",
    "3-12",
    "9+",
    array_of(
        "responses",
        Field("name", STRING),
        array_of(
            "partition_responses",
            Field("index", INT32),
            Field("error_code", INT16),
            Field("base_offset", INT64),
            Field("log_append_time_ms", INT64, default=-1, ignorable=True),
            Field("log_start_offset", INT64, "5+", default=-1, ignorable=True),
            array_of(
                "record_errors",
                Field("batch_index", INT32),
                Field("batch_index_error_message", STRING, default=None, nullable=True),
                versions="8+",
                ignorable=True,
                count_max=1,
            ),
            Field("error_message", STRING, "8+", default=None, nullable=True, ignorable=True),
            struct_of(
                "current_leader",
                Field("leader_id", INT32, default=-1),
                Field("leader_epoch", INT32, default=-1),
                versions="10+",
                tag=0,
                ignorable=True,
            ),
            count_max=PARTITIONS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
    Field("throttle_time_ms", INT32, ignorable=True),
    brokers_field("10+", ignorable=True),
)
