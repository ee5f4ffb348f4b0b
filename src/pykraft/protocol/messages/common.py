"""Fields that several messages have alike.

Source: KIP-853; Kafka's message definitions.
"""

from pykraft.protocol.schema import INT32, STRING, UINT16, Field, array_of

NODE_ENDPOINTS = array_of(
    "node_endpoints",
    Field("node_id", INT32),
    Field("host", STRING),
    Field("port", UINT16),
    versions="1+",
    tag=0,
)
"""The leader's endpoint, in answers of version 1 and later. Fetch has its own, with an int32 port."""

LISTENER = (Field("name", STRING), Field("host", STRING), Field("port", UINT16))
"""An endpoint with the name of its listener."""
