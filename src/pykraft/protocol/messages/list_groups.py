"""ListGroups (16): the consumer groups of a node. Here there are none.

Source: Kafka's ListGroupsRequest and ListGroupsResponse definitions.
"""

from pykraft.protocol.schema import INT16, INT32, STRING, Array, Field, Message, array_of

FILTERS_MAX = 100
"""Most states or types in a request."""

REQUEST = Message.of(
    "ListGroupsRequest",
    "0-5",
    "3+",
    Field("states_filter", Array(STRING, FILTERS_MAX), "4+"),
    Field("types_filter", Array(STRING, FILTERS_MAX), "5+"),
)

RESPONSE = Message.of(
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
