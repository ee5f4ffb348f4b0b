"""DescribeCluster (60): the nodes and the cluster id; the first request that Kafka's tools send to a controller.

Version 1 adds the endpoint type, 1 = brokers and 2 = controllers (KIP-919); 2 adds fenced brokers (KIP-1073).

Source: KIP-700; Kafka's DescribeClusterRequest and DescribeClusterResponse definitions.
"""

from pykraft.protocol.messages.common import REPLICAS_MAX
from pykraft.protocol.schema import BOOL, INT8, INT16, INT32, STRING, Field, Message, array_of

REQUEST = Message.of(
    "DescribeClusterRequest",
    "0-2",
    "0+",
    Field("include_cluster_authorized_operations", BOOL),
    Field("endpoint_type", INT8, "1+", default=1),
    Field("include_fenced_brokers", BOOL, "2+"),
)

RESPONSE = Message.of(
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
