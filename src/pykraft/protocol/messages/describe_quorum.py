"""DescribeQuorum (55): an operator asks the leader for voters and observers and how far each one is.

Version 1 adds the two times (KIP-836); 2 adds directory ids, nodes with their listeners and error messages (KIP-853),
which are empty, not null, without an error. Unknown offsets and times are -1, an unknown directory id is zero.

Source: KIP-595 §DescribeQuorum; Kafka's DescribeQuorumRequest and DescribeQuorumResponse definitions.
"""

from pykraft.protocol.messages.common import LISTENER, NODES_MAX, REPLICAS_MAX
from pykraft.protocol.schema import INT16, INT32, INT64, STRING, UUID, Field, Message, array_of

TOPICS_MAX = 4
"""Most topics, and partitions of each, in a request: each wrong one gets its own error, as in Kafka."""

_REPLICA = (
    Field("replica_id", INT32),
    Field("replica_directory_id", UUID, "2+", ignorable=True),
    Field("log_end_offset", INT64),
    Field("last_fetch_timestamp", INT64, "1+", default=-1, ignorable=True),
    Field("last_caught_up_timestamp", INT64, "1+", default=-1, ignorable=True),
)
_ERROR_MESSAGE = Field("error_message", STRING, "2+", nullable=True, ignorable=True)

REQUEST = Message.of(
    "DescribeQuorumRequest",
    "0-2",
    "0+",
    array_of(
        "topics",
        Field("topic_name", STRING),
        array_of("partitions", Field("partition_index", INT32), count_max=TOPICS_MAX),
        count_max=TOPICS_MAX,
    ),
)

RESPONSE = Message.of(
    "DescribeQuorumResponse",
    "0-2",
    "0+",
    Field("error_code", INT16),
    _ERROR_MESSAGE,
    array_of(
        "topics",
        Field("topic_name", STRING),
        array_of(
            "partitions",
            Field("partition_index", INT32),
            Field("error_code", INT16),
            _ERROR_MESSAGE,
            Field("leader_id", INT32),
            Field("leader_epoch", INT32),
            Field("high_watermark", INT64),
            array_of("current_voters", *_REPLICA, count_max=REPLICAS_MAX),
            array_of("observers", *_REPLICA, count_max=REPLICAS_MAX),
            count_max=TOPICS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
    array_of(
        "nodes",
        Field("node_id", INT32),
        array_of("listeners", *LISTENER, count_max=NODES_MAX),
        versions="2+",
        ignorable=True,
        count_max=REPLICAS_MAX,
    ),
)
