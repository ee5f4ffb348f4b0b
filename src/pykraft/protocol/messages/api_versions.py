"""ApiVersions (18): the APIs and versions that a peer supports; the first request on every connection.

Version 3 is flexible and adds the client's name and the features; 4 may show features whose lowest level is 0, such as
kraft.version (KAFKA-17011); 5 adds the node that the client means to reach. The answer's *header* stays version 0 for
ever, and a request of an unknown version is answered with a body of version 0 (KIP-511), so that any client can read
it.

Source: KIP-35, KIP-511, KIP-584; Kafka's ApiVersionsRequest and ApiVersionsResponse definitions.
"""

from pykraft.protocol.schema import BOOL, INT16, INT32, INT64, STRING, Field, Message, array_of

API_KEYS_MAX = 1_000
FEATURES_MAX = 100

REQUEST = Message.of(
    "ApiVersionsRequest",
    "0-5",
    "3+",
    Field("client_software_name", STRING, "3+", ignorable=True),
    Field("client_software_version", STRING, "3+", ignorable=True),
    Field("cluster_id", STRING, "5+", default=None, nullable=True, ignorable=True),
    Field("node_id", INT32, "5+", default=-1, ignorable=True),
)

RESPONSE = Message.of(
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
