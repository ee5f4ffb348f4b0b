"""DescribeTopicPartitions (75): the partitions of topics, some at a time, for clients with many of them (KIP-966).

An answer ends at a limit of partitions, and its cursor says where to go on. Here every topic has one partition.

Source: Kafka's DescribeTopicPartitionsRequest and DescribeTopicPartitionsResponse definitions.
"""

from pykraft.protocol.messages.common import REPLICAS_MAX
from pykraft.protocol.messages.metadata import OPERATIONS_NOT_TOLD, TOPICS_MAX
from pykraft.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    STRING,
    UUID,
    Array,
    Field,
    Message,
    array_of,
    optional_struct,
)

_CURSOR = (Field("topic_name", STRING), Field("partition_index", INT32))

REQUEST = Message.of(
    "DescribeTopicPartitionsRequest",
    "0",
    "0+",
    array_of("topics", Field("name", STRING), count_max=TOPICS_MAX),
    Field("response_partition_limit", INT32, default=2_000),
    optional_struct("cursor", *_CURSOR),
)

RESPONSE = Message.of(
    "DescribeTopicPartitionsResponse",
    "0",
    "0+",
    Field("throttle_time_ms", INT32),
    array_of(
        "topics",
        Field("error_code", INT16),
        Field("name", STRING, nullable=True),
        Field("topic_id", UUID),
        Field("is_internal", BOOL),
        array_of(
            "partitions",
            Field("error_code", INT16),
            Field("partition_index", INT32),
            Field("leader_id", INT32),
            Field("leader_epoch", INT32, default=-1),
            Field("replica_nodes", Array(INT32, REPLICAS_MAX)),
            Field("isr_nodes", Array(INT32, REPLICAS_MAX)),
            Field("eligible_leader_replicas", Array(INT32, REPLICAS_MAX), default=None, nullable=True),
            Field("last_known_elr", Array(INT32, REPLICAS_MAX), default=None, nullable=True),
            Field("offline_replicas", Array(INT32, REPLICAS_MAX)),
            count_max=1,
        ),
        Field("topic_authorized_operations", INT32, default=OPERATIONS_NOT_TOLD),
        count_max=TOPICS_MAX,
    ),
    optional_struct("next_cursor", *_CURSOR),
)
