"""Messages about a node, the cluster and the quorum, for any peer and for operators.

Source: KIP-35, KIP-511, KIP-584, KIP-595, KIP-700; Kafka's definitions of these messages.
"""

from pykraft.protocol.messages.common import LISTENER, NODES_MAX, REPLICAS_MAX
from pykraft.protocol.schema import BOOL, INT8, INT16, INT32, INT64, STRING, UUID, Field, Message, array_of

API_KEYS_MAX = 1_000
FEATURES_MAX = 100

API_VERSIONS_REQUEST = Message.of(
    "ApiVersionsRequest",
    "0-5",
    "3+",
    Field("client_software_name", STRING, "3+", ignorable=True),
    Field("client_software_version", STRING, "3+", ignorable=True),
    Field("cluster_id", STRING, "5+", default=None, nullable=True, ignorable=True),
    Field("node_id", INT32, "5+", default=-1, ignorable=True),
)
"""ApiVersions (18): the APIs and versions that a peer supports; the first request on every connection. Version 3 is
flexible and adds the client's name and the features; 4 may show features whose lowest level is 0, such as kraft.version
(KAFKA-17011); 5 adds the node that the client means to reach. The answer's *header* stays version 0 for ever, and a
request of an unknown version is answered with a body of version 0 (KIP-511), so that any client can read it.
"""

API_VERSIONS_RESPONSE = Message.of(
    "ApiVersionsResponse",
    "0-5",
    "3+",
    Field("error_code", INT16),
    array_of(
        "api_keys",
        Field("api_key", INT16),
        Field("min_version", INT16),
        Field("max_version", INT16),
        count_max=API_KEYS_MAX,
    ),
    Field("throttle_time_ms", INT32, "1+", ignorable=True),
    array_of(
        "supported_features",
        Field("name", STRING),
        Field("min_version", INT16),
        Field("max_version", INT16),
        versions="3+",
        tag=0,
        ignorable=True,
        count_max=FEATURES_MAX,
    ),
    Field("finalized_features_epoch", INT64, "3+", default=-1, tag=1, ignorable=True),
    array_of(
        "finalized_features",
        Field("name", STRING),
        Field("max_version_level", INT16),
        Field("min_version_level", INT16),
        versions="3+",
        tag=2,
        ignorable=True,
        count_max=FEATURES_MAX,
    ),
    Field("zk_migration_ready", BOOL, "3+", tag=3, ignorable=True),
)

DESCRIBE_CLUSTER_REQUEST = Message.of(
    "DescribeClusterRequest",
    "0-2",
    "0+",
    Field("include_cluster_authorized_operations", BOOL),
    Field("endpoint_type", INT8, "1+", default=1),
    Field("include_fenced_brokers", BOOL, "2+"),
)
"""DescribeCluster (60): the nodes and the cluster id; the first request that Kafka's tools send to a controller.
Version 1 adds the endpoint type, 1 = brokers and 2 = controllers (KIP-919); 2 adds fenced brokers (KIP-1073).
"""

DESCRIBE_CLUSTER_RESPONSE = Message.of(
    "DescribeClusterResponse",
    "0-2",
    "0+",
    Field("throttle_time_ms", INT32),
    Field("error_code", INT16),
    Field("error_message", STRING, default=None, nullable=True),
    Field("endpoint_type", INT8, "1+", default=1),
    Field("cluster_id", STRING),
    Field("controller_id", INT32, default=-1),
    array_of(
        "brokers",
        Field("broker_id", INT32),
        Field("host", STRING),
        Field("port", INT32),
        Field("rack", STRING, default=None, nullable=True),
        Field("is_fenced", BOOL, "2+", ignorable=True),
        count_max=REPLICAS_MAX,
    ),
    Field("cluster_authorized_operations", INT32, default=-(2**31)),
)

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

DESCRIBE_QUORUM_REQUEST = Message.of(
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
"""DescribeQuorum (55): an operator asks the leader for voters and observers and how far each one is. Version 1 adds the
two times (KIP-836); 2 adds directory ids, nodes with their listeners and error messages (KIP-853), which are empty, not
null, without an error. Unknown offsets and times are -1, an unknown directory id is zero.
"""

DESCRIBE_QUORUM_RESPONSE = Message.of(
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
