"""FindCoordinator (10): the node that keeps a consumer group or a transaction. Here nobody keeps either.

Version 4 asks for several keys at once (KIP-699); 3 is flexible.

Source: Kafka's FindCoordinatorRequest and FindCoordinatorResponse definitions.
"""

from pykraft.protocol.schema import INT8, INT16, INT32, STRING, Array, Field, Message, array_of

KEYS_MAX = 100
"""Most keys in a request."""

REQUEST = Message.of(
    "FindCoordinatorRequest",
    "0-6",
    "3+",
    Field("key", STRING, "0-3"),
    Field("key_type", INT8, "1+"),
    Field("coordinator_keys", Array(STRING, KEYS_MAX), "4+"),
)

RESPONSE = Message.of(
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
