"""Messages of Kafka's producers, consumers and admin clients, which no node of a quorum needs.

Source: KIP-98, KIP-101, KIP-320; Kafka's definitions of these messages.
"""

from pykraft.protocol.messages.common import REPLICAS_MAX, brokers_field
from pykraft.protocol.schema import (
    BOOL,
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
    optional_struct,
    struct_of,
)

TOPICS_MAX = 16
"""Most topics in a request, and most partitions of each where only one is looked up."""
PARTITIONS_MAX = 4
"""Most partitions of a topic in a request."""

PRODUCE_REQUEST = Message.of(
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
"""Produce (0): append records to the log. A request has a record batch for each partition. Versions that matter: 9 is
flexible; 8 adds an error message; 10 names the current leader and its endpoint, in tagged fields (KIP-951).
"""

PRODUCE_RESPONSE = Message.of(
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

LIST_OFFSETS_REQUEST = Message.of(
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
"""ListOffsets (2): the first or last offset of a partition, or the first one of a time. Versions that matter: 4 adds
leader epochs; 7 asks for the record of the newest time (-3, KIP-734); 8 for the first offset on a broker's own disk
(-4) and 9 for the last one in remote storage (-5), both KIP-405 and KIP-1005; 10 adds a time limit; 11 asks for what
waits for its upload (-6, KIP-1023).
"""

LIST_OFFSETS_RESPONSE = Message.of(
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

OFFSET_FOR_LEADER_EPOCH_REQUEST = Message.of(
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
"""OffsetForLeaderEpoch (23): where an epoch ends; a consumer finds out with it whether records were truncated."""

OFFSET_FOR_LEADER_EPOCH_RESPONSE = Message.of(
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

METADATA_TOPICS_MAX = 100
"""Most topics in a request."""
OPERATIONS_NOT_TOLD = -(2**31)
"""Authorized operations when nobody asked for them."""

METADATA_REQUEST = Message.of(
    "MetadataRequest",
    "0-13",
    "9+",
    array_of(
        "topics",
        Field("topic_id", UUID, "10+", ignorable=True),
        Field("name", STRING, nullable=True, null_from=10),
        nullable=True,
        null_from=1,
        count_max=METADATA_TOPICS_MAX,
    ),
    Field("allow_auto_topic_creation", BOOL, "4+", default=True),
    Field("include_cluster_authorized_operations", BOOL, "8-10"),
    Field("include_topic_authorized_operations", BOOL, "8+"),
)
"""Metadata (3): the nodes that clients can reach, the topics, and who leads their partitions. Versions that matter: in
0 an empty list asks for all topics, from 1 on null does; 10 adds topic ids (KIP-516); 12 asks by id alone; 13 adds an
error above the topics (KIP-1102).
"""

METADATA_RESPONSE = Message.of(
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
        count_max=METADATA_TOPICS_MAX,
    ),
    Field("cluster_authorized_operations", INT32, "8-10", default=OPERATIONS_NOT_TOLD),
    Field("error_code", INT16, "13+", ignorable=True),
)

_CURSOR = (Field("topic_name", STRING), Field("partition_index", INT32))

DESCRIBE_TOPIC_PARTITIONS_REQUEST = Message.of(
    "DescribeTopicPartitionsRequest",
    "0",
    "0+",
    array_of("topics", Field("name", STRING), count_max=METADATA_TOPICS_MAX),
    Field("response_partition_limit", INT32, default=2_000),
    optional_struct("cursor", *_CURSOR),
)
"""DescribeTopicPartitions (75): the partitions of topics, some at a time, for clients with many of them (KIP-966). An
answer ends at a limit of partitions, and its cursor says where to go on. Here every topic has one partition.
"""

DESCRIBE_TOPIC_PARTITIONS_RESPONSE = Message.of(
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
        count_max=METADATA_TOPICS_MAX,
    ),
    optional_struct("next_cursor", *_CURSOR),
)

INIT_PRODUCER_ID_REQUEST = Message.of(
    "InitProducerIdRequest",
    "0-5",
    "2+",
    Field("transactional_id", STRING, nullable=True),
    Field("transaction_timeout_ms", INT32),
    Field("producer_id", INT64, "3+", default=-1),
    Field("producer_epoch", INT16, "3+", default=-1),
)
"""InitProducerId (22): an id for an idempotent producer, which numbers its batches under it. Version 2 is flexible; 3
lets a producer name the id that it has, to get a new epoch of it (KIP-360).
"""

INIT_PRODUCER_ID_RESPONSE = Message.of(
    "InitProducerIdResponse",
    "0-5",
    "2+",
    Field("throttle_time_ms", INT32, ignorable=True),
    Field("error_code", INT16),
    Field("producer_id", INT64, default=-1),
    Field("producer_epoch", INT16),
)

KEYS_MAX = 100
"""Most keys in a request."""

FIND_COORDINATOR_REQUEST = Message.of(
    "FindCoordinatorRequest",
    "0-6",
    "3+",
    Field("key", STRING, "0-3"),
    Field("key_type", INT8, "1+"),
    Field("coordinator_keys", Array(STRING, KEYS_MAX), "4+"),
)
"""FindCoordinator (10): the node that keeps a consumer group or a transaction. Here nobody keeps either. Version 4 asks
for several keys at once (KIP-699); 3 is flexible.
"""

FIND_COORDINATOR_RESPONSE = Message.of(
    "FindCoordinatorResponse",
    "0-6",
    "3+",
    Field("throttle_time_ms", INT32, "1+", ignorable=True),
    Field("error_code", INT16, "0-3"),
    Field("error_message", STRING, "1-3", nullable=True, ignorable=True),
    Field("node_id", INT32, "0-3"),
    Field("host", STRING, "0-3"),
    Field("port", INT32, "0-3"),
    array_of(
        "coordinators",
        Field("key", STRING),
        Field("node_id", INT32),
        Field("host", STRING),
        Field("port", INT32),
        Field("error_code", INT16),
        Field("error_message", STRING, nullable=True, ignorable=True),
        versions="4+",
        count_max=KEYS_MAX,
    ),
)

FILTERS_MAX = 100
"""Most states or types in a request."""

LIST_GROUPS_REQUEST = Message.of(
    "ListGroupsRequest",
    "0-5",
    "3+",
    Field("states_filter", Array(STRING, FILTERS_MAX), "4+"),
    Field("types_filter", Array(STRING, FILTERS_MAX), "5+"),
)
"""ListGroups (16): the consumer groups of a node. Here there are none."""

LIST_GROUPS_RESPONSE = Message.of(
    "ListGroupsResponse",
    "0-5",
    "3+",
    Field("throttle_time_ms", INT32, "1+", ignorable=True),
    Field("error_code", INT16),
    array_of(
        "groups",
        Field("group_id", STRING),
        Field("protocol_type", STRING),
        Field("group_state", STRING, "4+", ignorable=True),
        Field("group_type", STRING, "5+", ignorable=True),
        count_max=FILTERS_MAX,
    ),
)

RESOURCES_MAX = 16
"""Most resources in a request."""
SETTINGS_MAX = 100
"""Most settings of one resource."""

DESCRIBE_CONFIGS_REQUEST = Message.of(
    "DescribeConfigsRequest",
    "1-4",
    "4+",
    array_of(
        "resources",
        Field("resource_type", INT8),
        Field("resource_name", STRING),
        Field("configuration_keys", Array(STRING, SETTINGS_MAX), nullable=True),
        count_max=RESOURCES_MAX,
    ),
    Field("include_synonyms", BOOL),
    Field("include_documentation", BOOL, "3+"),
)
"""DescribeConfigs (32): the settings of a topic or a node."""

DESCRIBE_CONFIGS_RESPONSE = Message.of(
    "DescribeConfigsResponse",
    "1-4",
    "4+",
    Field("throttle_time_ms", INT32, ignorable=True),
    array_of(
        "results",
        Field("error_code", INT16),
        Field("error_message", STRING, nullable=True),
        Field("resource_type", INT8),
        Field("resource_name", STRING),
        array_of(
            "configs",
            Field("name", STRING),
            Field("value", STRING, nullable=True),
            Field("read_only", BOOL),
            Field("config_source", INT8, default=-1, ignorable=True),
            Field("is_sensitive", BOOL),
            array_of(
                "synonyms",
                Field("name", STRING),
                Field("value", STRING, nullable=True),
                Field("source", INT8),
                ignorable=True,
                count_max=SETTINGS_MAX,
            ),
            Field("config_type", INT8, "3+", ignorable=True),
            Field("documentation", STRING, "3+", nullable=True, ignorable=True),
            count_max=SETTINGS_MAX,
        ),
        count_max=RESOURCES_MAX,
    ),
)
