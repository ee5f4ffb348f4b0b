"""Metadata (3): the nodes that clients can reach, the topics, and who leads their partitions.

Versions that matter: in 0 an empty list asks for all topics, from 1 on null does; 10 adds topic ids (KIP-516); 12 asks
by id alone; 13 adds an error above the topics (KIP-1102).

Source: Kafka's MetadataRequest and MetadataResponse definitions.
"""

from pykraft.protocol.messages.common import REPLICAS_MAX
from pykraft.protocol.schema import BOOL, INT16, INT32, STRING, UUID, Array, Field, Message, array_of

TOPICS_MAX = 100
"""Most topics in a request."""
OPERATIONS_NOT_TOLD = -(2**31)
"""Authorized operations when nobody asked for them."""

REQUEST = Message.of(
    "MetadataRequest",
    "0-13",
    "9+",
    array_of(
        "topics",
        Field("topic_id", UUID, "10+", ignorable=True),
        Field("name", STRING, nullable=True, null_from=10),
        nullable=True,
        null_from=1,
        count_max=TOPICS_MAX,
    ),
    Field("allow_auto_topic_creation", BOOL, "4+", default=True),
    Field("include_cluster_authorized_operations", BOOL, "8-10"),
    Field("include_topic_authorized_operations", BOOL, "8+"),
)

RESPONSE = Message.of(
    "MetadataResponse",
    "0-13",
    "9+",
    Field("throttle_time_ms", INT32, "3+", ignorable=True),
    array_of(
        "brokers",
        Field("node_id", INT32),
        Field("host", STRING),
        Field("port", INT32),
        Field("rack", STRING, "1+", default=None, nullable=True, ignorable=True),
        count_max=REPLICAS_MAX,
    ),
    Field("cluster_id", STRING, "2+", default=None, nullable=True, ignorable=True),
    Field("controller_id", INT32, "1+", default=-1, ignorable=True),
    array_of(
        "topics",
        Field("error_code", INT16),
        Field("name", STRING, nullable=True, null_from=12),
        Field("topic_id", UUID, "10+", ignorable=True),
        Field("is_internal", BOOL, "1+", ignorable=True),
        array_of(
            "partitions",
            Field("error_code", INT16),
            Field("partition_index", INT32),
            Field("leader_id", INT32),
            Field("leader_epoch", INT32, "7+", default=-1, ignorable=True),
            Field("replica_nodes", Array(INT32, REPLICAS_MAX)),
            Field("isr_nodes", Array(INT32, REPLICAS_MAX)),
            Field("offline_replicas", Array(INT32, REPLICAS_MAX), "5+", ignorable=True),
            count_max=1,
        ),
        Field("topic_authorized_operations", INT32, "8+", default=OPERATIONS_NOT_TOLD),
        count_max=TOPICS_MAX,
    ),
    Field("cluster_authorized_operations", INT32, "8-10", default=OPERATIONS_NOT_TOLD),
    Field("error_code", INT16, "13+", ignorable=True),
)
