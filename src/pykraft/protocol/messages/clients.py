"""Messages of Kafka's producers, consumers and admin clients, which no node of a quorum needs.

Source: KIP-98, KIP-101, KIP-320; Kafka's definitions of these messages.
"""

from pykraft.protocol import schema
from pykraft.protocol.messages.common import REPLICAS_MAX, brokers_field

TOPICS_MAX = 16
"""Most topics in a request, and most partitions of each where only one is looked up."""
PARTITIONS_MAX = 4
"""Most partitions of a topic in a request."""

PRODUCE_REQUEST = schema.Message.of(
    "ProduceRequest",
    "3-13",
    "9+",
    schema.Field("transactional_id", schema.STRING, default=None, nullable=True),
    schema.Field("acks", schema.INT16),
    schema.Field("timeout_ms", schema.INT32),
    schema.array_of(
        "topic_data",
        schema.Field("name", schema.STRING, "0-12", ignorable=True),
        schema.Field("topic_id", schema.UUID, "13+", ignorable=True),
        schema.array_of(
            "partition_data",
            schema.Field("index", schema.INT32),
            schema.Field("records", schema.RECORDS, nullable=True),
            count_max=PARTITIONS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
)
"""Produce (0): append records to the log. A request has a record batch for each partition. Versions that matter: 9 is
flexible; 8 adds an error message; 10 names the current leader and its endpoint, in tagged fields (KIP-951); 13 has ids
in place of the topics' names (KIP-516).
"""

PRODUCE_RESPONSE = schema.Message.of(
    "ProduceResponse",
    "3-13",
    "9+",
    schema.array_of(
        "responses",
        schema.Field("name", schema.STRING, "0-12", ignorable=True),
        schema.Field("topic_id", schema.UUID, "13+", ignorable=True),
        schema.array_of(
            "partition_responses",
            schema.Field("index", schema.INT32),
            schema.Field("error_code", schema.INT16),
            schema.Field("base_offset", schema.INT64),
            schema.Field("log_append_time_ms", schema.INT64, default=-1, ignorable=True),
            schema.Field("log_start_offset", schema.INT64, "5+", default=-1, ignorable=True),
            schema.array_of(
                "record_errors",
                schema.Field("batch_index", schema.INT32),
                schema.Field("batch_index_error_message", schema.STRING, default=None, nullable=True),
                versions="8+",
                ignorable=True,
                count_max=1,
            ),
            schema.Field("error_message", schema.STRING, "8+", default=None, nullable=True, ignorable=True),
            schema.struct_of(
                "current_leader",
                schema.Field("leader_id", schema.INT32, default=-1),
                schema.Field("leader_epoch", schema.INT32, default=-1),
                versions="10+",
                tag=0,
                ignorable=True,
            ),
            count_max=PARTITIONS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
    schema.Field("throttle_time_ms", schema.INT32, ignorable=True),
    brokers_field("10+", ignorable=True),
)

LIST_OFFSETS_REQUEST = schema.Message.of(
    "ListOffsetsRequest",
    "1-11",
    "6+",
    schema.Field("replica_id", schema.INT32),
    schema.Field("isolation_level", schema.INT8, "2+"),
    schema.array_of(
        "topics",
        schema.Field("name", schema.STRING),
        schema.array_of(
            "partitions",
            schema.Field("partition_index", schema.INT32),
            schema.Field("current_leader_epoch", schema.INT32, "4+", default=-1, ignorable=True),
            schema.Field("timestamp", schema.INT64),
            count_max=TOPICS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
    schema.Field("timeout_ms", schema.INT32, "10+", ignorable=True),
)
"""ListOffsets (2): the first or last offset of a partition, or the first one of a time. Versions that matter: 4 adds
leader epochs; 7 asks for the record of the newest time (-3, KIP-734); 8 for the first offset on a broker's own disk
(-4) and 9 for the last one in remote storage (-5), both KIP-405 and KIP-1005; 10 adds a time limit; 11 asks for what
waits for its upload (-6, KIP-1023).
"""

LIST_OFFSETS_RESPONSE = schema.Message.of(
    "ListOffsetsResponse",
    "1-11",
    "6+",
    schema.Field("throttle_time_ms", schema.INT32, "2+", ignorable=True),
    schema.array_of(
        "topics",
        schema.Field("name", schema.STRING),
        schema.array_of(
            "partitions",
            schema.Field("partition_index", schema.INT32),
            schema.Field("error_code", schema.INT16),
            schema.Field("timestamp", schema.INT64, default=-1, ignorable=True),
            schema.Field("offset", schema.INT64, default=-1, ignorable=True),
            schema.Field("leader_epoch", schema.INT32, "4+", default=-1, ignorable=True),
            count_max=TOPICS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
)

OFFSET_FOR_LEADER_EPOCH_REQUEST = schema.Message.of(
    "OffsetForLeaderEpochRequest",
    "2-4",
    "4+",
    schema.Field("replica_id", schema.INT32, "3+", default=-2, ignorable=True),
    schema.array_of(
        "topics",
        schema.Field("topic", schema.STRING),
        schema.array_of(
            "partitions",
            schema.Field("partition", schema.INT32),
            schema.Field("current_leader_epoch", schema.INT32, default=-1, ignorable=True),
            schema.Field("leader_epoch", schema.INT32),
            count_max=TOPICS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
)
"""OffsetForLeaderEpoch (23): where an epoch ends; a consumer finds out with it whether records were truncated."""

OFFSET_FOR_LEADER_EPOCH_RESPONSE = schema.Message.of(
    "OffsetForLeaderEpochResponse",
    "2-4",
    "4+",
    schema.Field("throttle_time_ms", schema.INT32, ignorable=True),
    schema.array_of(
        "topics",
        schema.Field("topic", schema.STRING),
        schema.array_of(
            "partitions",
            schema.Field("error_code", schema.INT16),
            schema.Field("partition", schema.INT32),
            schema.Field("leader_epoch", schema.INT32, default=-1, ignorable=True),
            schema.Field("end_offset", schema.INT64, default=-1),
            count_max=TOPICS_MAX,
        ),
        count_max=TOPICS_MAX,
    ),
)

METADATA_TOPICS_MAX = 100
"""Most topics in a request."""
OPERATIONS_NOT_TOLD = -(2**31)
"""Authorized operations when nobody asked for them."""

METADATA_REQUEST = schema.Message.of(
    "MetadataRequest",
    "0-13",
    "9+",
    schema.array_of(
        "topics",
        schema.Field("topic_id", schema.UUID, "10+", ignorable=True),
        schema.Field("name", schema.STRING, nullable=True, null_from=10),
        nullable=True,
        null_from=1,
        count_max=METADATA_TOPICS_MAX,
    ),
    schema.Field("allow_auto_topic_creation", schema.BOOL, "4+", default=True),
    schema.Field("include_cluster_authorized_operations", schema.BOOL, "8-10"),
    schema.Field("include_topic_authorized_operations", schema.BOOL, "8+"),
)
"""Metadata (3): the nodes that clients can reach, the topics, and who leads their partitions. Versions that matter: in
0 an empty list asks for all topics, from 1 on null does; 10 adds topic ids (KIP-516); 12 asks by id alone; 13 adds an
error above the topics (KIP-1102).
"""

METADATA_RESPONSE = schema.Message.of(
    "MetadataResponse",
    "0-13",
    "9+",
    schema.Field("throttle_time_ms", schema.INT32, "3+", ignorable=True),
    schema.array_of(
        "brokers",
        schema.Field("node_id", schema.INT32),
        schema.Field("host", schema.STRING),
        schema.Field("port", schema.INT32),
        schema.Field("rack", schema.STRING, "1+", default=None, nullable=True, ignorable=True),
        count_max=REPLICAS_MAX,
    ),
    schema.Field("cluster_id", schema.STRING, "2+", default=None, nullable=True, ignorable=True),
    schema.Field("controller_id", schema.INT32, "1+", default=-1, ignorable=True),
    schema.array_of(
        "topics",
        schema.Field("error_code", schema.INT16),
        schema.Field("name", schema.STRING, nullable=True, null_from=12),
        schema.Field("topic_id", schema.UUID, "10+", ignorable=True),
        schema.Field("is_internal", schema.BOOL, "1+", ignorable=True),
        schema.array_of(
            "partitions",
            schema.Field("error_code", schema.INT16),
            schema.Field("partition_index", schema.INT32),
            schema.Field("leader_id", schema.INT32),
            schema.Field("leader_epoch", schema.INT32, "7+", default=-1, ignorable=True),
            schema.Field("replica_nodes", schema.Array(schema.INT32, REPLICAS_MAX)),
            schema.Field("isr_nodes", schema.Array(schema.INT32, REPLICAS_MAX)),
            schema.Field("offline_replicas", schema.Array(schema.INT32, REPLICAS_MAX), "5+", ignorable=True),
            count_max=1,
        ),
        schema.Field("topic_authorized_operations", schema.INT32, "8+", default=OPERATIONS_NOT_TOLD),
        count_max=METADATA_TOPICS_MAX,
    ),
    schema.Field("cluster_authorized_operations", schema.INT32, "8-10", default=OPERATIONS_NOT_TOLD),
    schema.Field("error_code", schema.INT16, "13+", ignorable=True),
)

_CURSOR = (schema.Field("topic_name", schema.STRING), schema.Field("partition_index", schema.INT32))

DESCRIBE_TOPIC_PARTITIONS_REQUEST = schema.Message.of(
    "DescribeTopicPartitionsRequest",
    "0",
    "0+",
    schema.array_of("topics", schema.Field("name", schema.STRING), count_max=METADATA_TOPICS_MAX),
    schema.Field("response_partition_limit", schema.INT32, default=2_000),
    schema.optional_struct("cursor", *_CURSOR),
)
"""DescribeTopicPartitions (75): the partitions of topics, some at a time, for clients with many of them (KIP-966). An
answer ends at a limit of partitions, and its cursor says where to go on. Here every topic has one partition.
"""

DESCRIBE_TOPIC_PARTITIONS_RESPONSE = schema.Message.of(
    "DescribeTopicPartitionsResponse",
    "0",
    "0+",
    schema.Field("throttle_time_ms", schema.INT32),
    schema.array_of(
        "topics",
        schema.Field("error_code", schema.INT16),
        schema.Field("name", schema.STRING, nullable=True),
        schema.Field("topic_id", schema.UUID),
        schema.Field("is_internal", schema.BOOL),
        schema.array_of(
            "partitions",
            schema.Field("error_code", schema.INT16),
            schema.Field("partition_index", schema.INT32),
            schema.Field("leader_id", schema.INT32),
            schema.Field("leader_epoch", schema.INT32, default=-1),
            schema.Field("replica_nodes", schema.Array(schema.INT32, REPLICAS_MAX)),
            schema.Field("isr_nodes", schema.Array(schema.INT32, REPLICAS_MAX)),
            schema.Field(
                "eligible_leader_replicas", schema.Array(schema.INT32, REPLICAS_MAX), default=None, nullable=True
            ),
            schema.Field("last_known_elr", schema.Array(schema.INT32, REPLICAS_MAX), default=None, nullable=True),
            schema.Field("offline_replicas", schema.Array(schema.INT32, REPLICAS_MAX)),
            count_max=1,
        ),
        schema.Field("topic_authorized_operations", schema.INT32, default=OPERATIONS_NOT_TOLD),
        count_max=METADATA_TOPICS_MAX,
    ),
    schema.optional_struct("next_cursor", *_CURSOR),
)

INIT_PRODUCER_ID_REQUEST = schema.Message.of(
    "InitProducerIdRequest",
    "0-5",
    "2+",
    schema.Field("transactional_id", schema.STRING, nullable=True),
    schema.Field("transaction_timeout_ms", schema.INT32),
    schema.Field("producer_id", schema.INT64, "3+", default=-1),
    schema.Field("producer_epoch", schema.INT16, "3+", default=-1),
)
"""InitProducerId (22): an id for an idempotent producer, which numbers its batches under it. Version 2 is flexible; 3
lets a producer name the id that it has, to get a new epoch of it (KIP-360).
"""

INIT_PRODUCER_ID_RESPONSE = schema.Message.of(
    "InitProducerIdResponse",
    "0-5",
    "2+",
    schema.Field("throttle_time_ms", schema.INT32, ignorable=True),
    schema.Field("error_code", schema.INT16),
    schema.Field("producer_id", schema.INT64, default=-1),
    schema.Field("producer_epoch", schema.INT16),
)

KEYS_MAX = 100
"""Most keys in a request."""

FIND_COORDINATOR_REQUEST = schema.Message.of(
    "FindCoordinatorRequest",
    "0-6",
    "3+",
    schema.Field("key", schema.STRING, "0-3"),
    schema.Field("key_type", schema.INT8, "1+"),
    schema.Field("coordinator_keys", schema.Array(schema.STRING, KEYS_MAX), "4+"),
)
"""FindCoordinator (10): the node that keeps a consumer group or a transaction. Here nobody keeps either. Version 4 asks
for several keys at once (KIP-699); 3 is flexible.
"""

FIND_COORDINATOR_RESPONSE = schema.Message.of(
    "FindCoordinatorResponse",
    "0-6",
    "3+",
    schema.Field("throttle_time_ms", schema.INT32, "1+", ignorable=True),
    schema.Field("error_code", schema.INT16, "0-3"),
    schema.Field("error_message", schema.STRING, "1-3", nullable=True, ignorable=True),
    schema.Field("node_id", schema.INT32, "0-3"),
    schema.Field("host", schema.STRING, "0-3"),
    schema.Field("port", schema.INT32, "0-3"),
    schema.array_of(
        "coordinators",
        schema.Field("key", schema.STRING),
        schema.Field("node_id", schema.INT32),
        schema.Field("host", schema.STRING),
        schema.Field("port", schema.INT32),
        schema.Field("error_code", schema.INT16),
        schema.Field("error_message", schema.STRING, nullable=True, ignorable=True),
        versions="4+",
        count_max=KEYS_MAX,
    ),
)

RESOURCES_MAX = 16
"""Most resources in a request."""
SETTINGS_MAX = 100
"""Most settings of one resource."""

DESCRIBE_CONFIGS_REQUEST = schema.Message.of(
    "DescribeConfigsRequest",
    "1-4",
    "4+",
    schema.array_of(
        "resources",
        schema.Field("resource_type", schema.INT8),
        schema.Field("resource_name", schema.STRING),
        schema.Field("configuration_keys", schema.Array(schema.STRING, SETTINGS_MAX), nullable=True),
        count_max=RESOURCES_MAX,
    ),
    schema.Field("include_synonyms", schema.BOOL),
    schema.Field("include_documentation", schema.BOOL, "3+"),
)
"""DescribeConfigs (32): the settings of a topic or a node."""

DESCRIBE_CONFIGS_RESPONSE = schema.Message.of(
    "DescribeConfigsResponse",
    "1-4",
    "4+",
    schema.Field("throttle_time_ms", schema.INT32, ignorable=True),
    schema.array_of(
        "results",
        schema.Field("error_code", schema.INT16),
        schema.Field("error_message", schema.STRING, nullable=True),
        schema.Field("resource_type", schema.INT8),
        schema.Field("resource_name", schema.STRING),
        schema.array_of(
            "configs",
            schema.Field("name", schema.STRING),
            schema.Field("value", schema.STRING, nullable=True),
            schema.Field("read_only", schema.BOOL),
            schema.Field("config_source", schema.INT8, default=-1, ignorable=True),
            schema.Field("is_sensitive", schema.BOOL),
            schema.array_of(
                "synonyms",
                schema.Field("name", schema.STRING),
                schema.Field("value", schema.STRING, nullable=True),
                schema.Field("source", schema.INT8),
                ignorable=True,
                count_max=SETTINGS_MAX,
            ),
            schema.Field("config_type", schema.INT8, "3+", ignorable=True),
            schema.Field("documentation", schema.STRING, "3+", nullable=True, ignorable=True),
            count_max=SETTINGS_MAX,
        ),
        count_max=RESOURCES_MAX,
    ),
)
