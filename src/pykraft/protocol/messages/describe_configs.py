"""DescribeConfigs (32): the settings of a topic or a node.

Source: Kafka's DescribeConfigsRequest and DescribeConfigsResponse definitions.
"""

from pykraft.protocol.schema import BOOL, INT8, INT16, INT32, STRING, Array, Field, Message, array_of

RESOURCES_MAX = 16
"""Most resources in a request."""
SETTINGS_MAX = 100
"""Most settings of one resource."""

REQUEST = Message.of(
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

RESPONSE = Message.of(
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
