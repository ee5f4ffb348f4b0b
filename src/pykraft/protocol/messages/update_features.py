"""UpdateFeatures (57): raise the level of features, here of kraft.version.

Version 1 replaces the flag that allows a downgrade by the type of the upgrade, and adds ``validate_only``; from 2 on
the answer has no results of single features.

Source: KIP-584, KIP-778; Kafka's UpdateFeaturesRequest and UpdateFeaturesResponse definitions.
"""

from pykraft.protocol.schema import BOOL, INT8, INT16, INT32, STRING, Field, Message, array_of

FEATURES_MAX = 16

REQUEST = Message.of(
    "UpdateFeaturesRequest",
    "0-2",
    "0+",
    Field("timeout_ms", INT32, default=60_000),
    array_of(
        "feature_updates",
        Field("feature", STRING),
        Field("max_version_level", INT16),
        Field("allow_downgrade", BOOL, "0"),
        Field("upgrade_type", INT8, "1+", default=1),
        count_max=FEATURES_MAX,
    ),
    Field("validate_only", BOOL, "1+"),
)

RESPONSE = Message.of(
    "UpdateFeaturesResponse",
    "0-2",
    "0+",
    Field("throttle_time_ms", INT32),
    Field("error_code", INT16),
    Field("error_message", STRING, default=None, nullable=True),
    array_of(
        "results",
        Field("feature", STRING),
        Field("error_code", INT16),
        Field("error_message", STRING, default=None, nullable=True),
        versions="0-1",
        ignorable=True,
        count_max=FEATURES_MAX,
    ),
)
