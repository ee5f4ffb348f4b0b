"""The records of Kafka's metadata log, by the number of their type. Generated; do not edit.

``python -m tests.protocol.metadata.generate JAR`` makes this file from Kafka 4.4.0's own definitions.

Source: Kafka 4.4.0, metadata ``common/metadata/*.json``.
"""

from typing import Final

from pykraft.protocol.schema import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID,
    Array,
    Field,
    Message,
    array_of,
)

KAFKA_VERSION: Final = "4.4.0"
ELEMENTS_MAX: Final = 10_000
"""Most structs in a list: endpoints, features, or the parts of a quota's entity. Kafka writes a handful."""

# fmt: off
TABLES: Final[dict[int, Message]] = {
    0: Message.of("RegisterBrokerRecord", "0-4", "0+", Field("broker_id", INT32),
        Field("is_migrating_zk_broker", BOOL, versions="2+", default=False), Field("incarnation_id", UUID),
        Field("broker_epoch", INT64), array_of("end_points", Field("name", STRING), Field("host", STRING),
        Field("port", UINT16), Field("security_protocol", INT16), count_max=ELEMENTS_MAX), array_of("features",
        Field("name", STRING), Field("min_supported_version", INT16), Field("max_supported_version", INT16),
        count_max=ELEMENTS_MAX), Field("rack", STRING, nullable=True), Field("fenced", BOOL, default=True),
        Field("in_controlled_shutdown", BOOL, versions="1+", default=False),
        Field("log_dirs", Array(UUID), versions="3+", tag=0),
        Field("cordoned_log_dirs", Array(UUID), versions="4+", default=None, nullable=True, tag=1)),
    1: Message.of("UnregisterBrokerRecord", "0", "0+", Field("broker_id", INT32), Field("broker_epoch", INT64)),
    2: Message.of("TopicRecord", "0", "0+", Field("name", STRING), Field("topic_id", UUID)),
    3: Message.of("PartitionRecord", "0-2", "0+", Field("partition_id", INT32, default=-1), Field("topic_id", UUID),
        Field("replicas", Array(INT32)), Field("isr", Array(INT32)), Field("removing_replicas", Array(INT32)),
        Field("adding_replicas", Array(INT32)), Field("leader", INT32, default=-1),
        Field("leader_recovery_state", INT8, default=0, tag=0), Field("leader_epoch", INT32, default=-1),
        Field("partition_epoch", INT32, default=-1), Field("directories", Array(UUID), versions="1+"),
        Field("eligible_leader_replicas", Array(INT32), versions="2+", default=None, nullable=True, tag=1),
        Field("last_known_elr", Array(INT32), versions="2+", default=None, nullable=True, tag=2)),
    4: Message.of("ConfigRecord", "0", "0+", Field("resource_type", INT8), Field("resource_name", STRING),
        Field("name", STRING), Field("value", STRING, nullable=True)),
    5: Message.of("PartitionChangeRecord", "0-2", "0+", Field("partition_id", INT32, default=-1),
        Field("topic_id", UUID), Field("isr", Array(INT32), default=None, nullable=True, tag=0),
        Field("leader", INT32, default=-2, tag=1), Field("replicas", Array(INT32), default=None, nullable=True, tag=2),
        Field("removing_replicas", Array(INT32), default=None, nullable=True, tag=3),
        Field("adding_replicas", Array(INT32), default=None, nullable=True, tag=4),
        Field("leader_recovery_state", INT8, default=-1, tag=5),
        Field("directories", Array(UUID), versions="1+", default=None, nullable=True, tag=8),
        Field("eligible_leader_replicas", Array(INT32), versions="2+", default=None, nullable=True, tag=6),
        Field("last_known_elr", Array(INT32), versions="2+", default=None, nullable=True, tag=7)),
    7: Message.of("FenceBrokerRecord", "0", "0+", Field("id", INT32), Field("epoch", INT64)),
    8: Message.of("UnfenceBrokerRecord", "0", "0+", Field("id", INT32), Field("epoch", INT64)),
    9: Message.of("RemoveTopicRecord", "0", "0+", Field("topic_id", UUID)),
    10: Message.of("DelegationTokenRecord", "0", "0+", Field("owner", STRING), Field("requester", STRING),
        Field("renewers", Array(STRING)), Field("issue_timestamp", INT64), Field("max_timestamp", INT64),
        Field("expiration_timestamp", INT64), Field("token_id", STRING)),
    11: Message.of("UserScramCredentialRecord", "0", "0+", Field("name", STRING), Field("mechanism", INT8),
        Field("salt", BYTES), Field("stored_key", BYTES), Field("server_key", BYTES), Field("iterations", INT32)),
    12: Message.of("FeatureLevelRecord", "0", "0+", Field("name", STRING), Field("feature_level", INT16)),
    14: Message.of("ClientQuotaRecord", "0", "0+", array_of("entity", Field("entity_type", STRING),
        Field("entity_name", STRING, nullable=True), count_max=ELEMENTS_MAX), Field("key", STRING),
        Field("value", FLOAT64), Field("remove", BOOL)),
    15: Message.of("ProducerIdsRecord", "0", "0+", Field("broker_id", INT32), Field("broker_epoch", INT64, default=-1),
        Field("next_producer_id", INT64)),
    17: Message.of("BrokerRegistrationChangeRecord", "0-3", "0+", Field("broker_id", INT32),
        Field("broker_epoch", INT64), Field("fenced", INT8, tag=0),
        Field("in_controlled_shutdown", INT8, versions="1+", tag=1),
        Field("log_dirs", Array(UUID), versions="2+", tag=2),
        Field("cordoned_log_dirs", Array(UUID), versions="3+", default=None, nullable=True, tag=3)),
    18: Message.of("AccessControlEntryRecord", "0", "0+", Field("id", UUID), Field("resource_type", INT8),
        Field("resource_name", STRING), Field("pattern_type", INT8), Field("principal", STRING), Field("host", STRING),
        Field("operation", INT8), Field("permission_type", INT8)),
    19: Message.of("RemoveAccessControlEntryRecord", "0", "0+", Field("id", UUID)),
    20: Message.of("NoOpRecord", "0", "0+"),
    21: Message.of("ZkMigrationStateRecord", "0", "0+", Field("zk_migration_state", INT8)),
    22: Message.of("RemoveUserScramCredentialRecord", "0", "0+", Field("name", STRING), Field("mechanism", INT8)),
    23: Message.of("BeginTransactionRecord", "0", "0+", Field("name", STRING, default=None, nullable=True, tag=0)),
    24: Message.of("EndTransactionRecord", "0", "0+"),
    25: Message.of("AbortTransactionRecord", "0", "0+", Field("reason", STRING, default=None, nullable=True, tag=0)),
    26: Message.of("RemoveDelegationTokenRecord", "0", "0+", Field("token_id", STRING)),
    27: Message.of("RegisterControllerRecord", "0", "0+", Field("controller_id", INT32), Field("incarnation_id", UUID),
        Field("zk_migration_ready", BOOL), array_of("end_points", Field("name", STRING), Field("host", STRING),
        Field("port", UINT16), Field("security_protocol", INT16), count_max=ELEMENTS_MAX), array_of("features",
        Field("name", STRING), Field("min_supported_version", INT16), Field("max_supported_version", INT16),
        count_max=ELEMENTS_MAX)),
    28: Message.of("ClearElrRecord", "0", "0+", Field("topic_name", STRING)),
    29: Message.of("UnregisterControllerRecord", "0", "0+", Field("controller_id", INT32)),
}
