"""Reads one record of Kafka's metadata log from the value of a record in the log.

    frame version 1   type     version   body
      uvarint         uvarint  uvarint   as the table of the type says, always flexible

Invariant: whatever the bytes are, the only error is `ProtocolError`, and what is made of them is bounded by
`VALUE_SIZE_BYTES_MAX` and by the counts in the tables. `tables` is generated from Kafka's own schemas; a newer type or
version cannot be read, since nobody knows its fields.

The records of Kafka's metadata log, by the number of their type. Generated; do not edit.

``python -m tests.protocol.metadata.generate JAR`` makes this file from Kafka 4.4.0's own definitions.

Source: KIP-631; Kafka's ``AbstractApiMessageSerde``, ``MetadataRecordSerde``, ``MetadataRecordType``; Kafka 4.4.0,
metadata ``common/metadata/*.json``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.json_form import body_json, snake_case
from pykraft.protocol.primitives import read_uvarint
from pykraft.protocol.reader import Read, compile_reader
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
    Body,
    Field,
    Message,
    array_of,
)
from pykraft.types import Buffer

KAFKA_VERSION: Final = "4.4.0"
ELEMENTS_MAX: Final = 10_000
"""Most structs in a list: endpoints, features, or the parts of a quota's entity. Kafka writes a handful."""

TABLES: Final[dict[int, Message]] = {
    0: Message.of(
        "RegisterBrokerRecord",
        "0-4",
        "0+",
        Field("broker_id", INT32),
        Field("is_migrating_zk_broker", BOOL, versions="2+", default=False),
        Field("incarnation_id", UUID),
        Field("broker_epoch", INT64),
        array_of(
            "end_points",
            Field("name", STRING),
            Field("host", STRING),
            Field("port", UINT16),
            Field("security_protocol", INT16),
            count_max=ELEMENTS_MAX,
        ),
        array_of(
            "features",
            Field("name", STRING),
            Field("min_supported_version", INT16),
            Field("max_supported_version", INT16),
            count_max=ELEMENTS_MAX,
        ),
        Field("rack", STRING, nullable=True),
        Field("fenced", BOOL, default=True),
        Field("in_controlled_shutdown", BOOL, versions="1+", default=False),
        Field("log_dirs", Array(UUID), versions="3+", tag=0),
        Field("cordoned_log_dirs", Array(UUID), versions="4+", default=None, nullable=True, tag=1),
    ),
    1: Message.of("UnregisterBrokerRecord", "0", "0+", Field("broker_id", INT32), Field("broker_epoch", INT64)),
    2: Message.of("TopicRecord", "0", "0+", Field("name", STRING), Field("topic_id", UUID)),
    3: Message.of(
        "PartitionRecord",
        "0-2",
        "0+",
        Field("partition_id", INT32, default=-1),
        Field("topic_id", UUID),
        Field("replicas", Array(INT32)),
        Field("isr", Array(INT32)),
        Field("removing_replicas", Array(INT32)),
        Field("adding_replicas", Array(INT32)),
        Field("leader", INT32, default=-1),
        Field("leader_recovery_state", INT8, default=0, tag=0),
        Field("leader_epoch", INT32, default=-1),
        Field("partition_epoch", INT32, default=-1),
        Field("directories", Array(UUID), versions="1+"),
        Field("eligible_leader_replicas", Array(INT32), versions="2+", default=None, nullable=True, tag=1),
        Field("last_known_elr", Array(INT32), versions="2+", default=None, nullable=True, tag=2),
    ),
    4: Message.of(
        "ConfigRecord",
        "0",
        "0+",
        Field("resource_type", INT8),
        Field("resource_name", STRING),
        Field("name", STRING),
        Field("value", STRING, nullable=True),
    ),
    5: Message.of(
        "PartitionChangeRecord",
        "0-2",
        "0+",
        Field("partition_id", INT32, default=-1),
        Field("topic_id", UUID),
        Field("isr", Array(INT32), default=None, nullable=True, tag=0),
        Field("leader", INT32, default=-2, tag=1),
        Field("replicas", Array(INT32), default=None, nullable=True, tag=2),
        Field("removing_replicas", Array(INT32), default=None, nullable=True, tag=3),
        Field("adding_replicas", Array(INT32), default=None, nullable=True, tag=4),
        Field("leader_recovery_state", INT8, default=-1, tag=5),
        Field("directories", Array(UUID), versions="1+", default=None, nullable=True, tag=8),
        Field("eligible_leader_replicas", Array(INT32), versions="2+", default=None, nullable=True, tag=6),
        Field("last_known_elr", Array(INT32), versions="2+", default=None, nullable=True, tag=7),
    ),
    7: Message.of("FenceBrokerRecord", "0", "0+", Field("id", INT32), Field("epoch", INT64)),
    8: Message.of("UnfenceBrokerRecord", "0", "0+", Field("id", INT32), Field("epoch", INT64)),
    9: Message.of("RemoveTopicRecord", "0", "0+", Field("topic_id", UUID)),
    10: Message.of(
        "DelegationTokenRecord",
        "0",
        "0+",
        Field("owner", STRING),
        Field("requester", STRING),
        Field("renewers", Array(STRING)),
        Field("issue_timestamp", INT64),
        Field("max_timestamp", INT64),
        Field("expiration_timestamp", INT64),
        Field("token_id", STRING),
    ),
    11: Message.of(
        "UserScramCredentialRecord",
        "0",
        "0+",
        Field("name", STRING),
        Field("mechanism", INT8),
        Field("salt", BYTES),
        Field("stored_key", BYTES),
        Field("server_key", BYTES),
        Field("iterations", INT32),
    ),
    12: Message.of("FeatureLevelRecord", "0", "0+", Field("name", STRING), Field("feature_level", INT16)),
    14: Message.of(
        "ClientQuotaRecord",
        "0",
        "0+",
        array_of(
            "entity", Field("entity_type", STRING), Field("entity_name", STRING, nullable=True), count_max=ELEMENTS_MAX
        ),
        Field("key", STRING),
        Field("value", FLOAT64),
        Field("remove", BOOL),
    ),
    15: Message.of(
        "ProducerIdsRecord",
        "0",
        "0+",
        Field("broker_id", INT32),
        Field("broker_epoch", INT64, default=-1),
        Field("next_producer_id", INT64),
    ),
    17: Message.of(
        "BrokerRegistrationChangeRecord",
        "0-3",
        "0+",
        Field("broker_id", INT32),
        Field("broker_epoch", INT64),
        Field("fenced", INT8, tag=0),
        Field("in_controlled_shutdown", INT8, versions="1+", tag=1),
        Field("log_dirs", Array(UUID), versions="2+", tag=2),
        Field("cordoned_log_dirs", Array(UUID), versions="3+", default=None, nullable=True, tag=3),
    ),
    18: Message.of(
        "AccessControlEntryRecord",
        "0",
        "0+",
        Field("id", UUID),
        Field("resource_type", INT8),
        Field("resource_name", STRING),
        Field("pattern_type", INT8),
        Field("principal", STRING),
        Field("host", STRING),
        Field("operation", INT8),
        Field("permission_type", INT8),
    ),
    19: Message.of("RemoveAccessControlEntryRecord", "0", "0+", Field("id", UUID)),
    20: Message.of("NoOpRecord", "0", "0+"),
    21: Message.of("ZkMigrationStateRecord", "0", "0+", Field("zk_migration_state", INT8)),
    22: Message.of("RemoveUserScramCredentialRecord", "0", "0+", Field("name", STRING), Field("mechanism", INT8)),
    23: Message.of("BeginTransactionRecord", "0", "0+", Field("name", STRING, default=None, nullable=True, tag=0)),
    24: Message.of("EndTransactionRecord", "0", "0+"),
    25: Message.of("AbortTransactionRecord", "0", "0+", Field("reason", STRING, default=None, nullable=True, tag=0)),
    26: Message.of("RemoveDelegationTokenRecord", "0", "0+", Field("token_id", STRING)),
    27: Message.of(
        "RegisterControllerRecord",
        "0",
        "0+",
        Field("controller_id", INT32),
        Field("incarnation_id", UUID),
        Field("zk_migration_ready", BOOL),
        array_of(
            "end_points",
            Field("name", STRING),
            Field("host", STRING),
            Field("port", UINT16),
            Field("security_protocol", INT16),
            count_max=ELEMENTS_MAX,
        ),
        array_of(
            "features",
            Field("name", STRING),
            Field("min_supported_version", INT16),
            Field("max_supported_version", INT16),
            count_max=ELEMENTS_MAX,
        ),
    ),
    28: Message.of("ClearElrRecord", "0", "0+", Field("topic_name", STRING)),
    29: Message.of("UnregisterControllerRecord", "0", "0+", Field("controller_id", INT32)),
}


FRAME_VERSION: Final = 1
VALUE_SIZE_BYTES_MAX: Final = 8 * 1024 * 1024
"""A larger value is not read; Kafka's controllers write no batch that is larger."""


@dataclass(frozen=True, slots=True)
class MetadataRecord:
    """A record as it was read: the number of its type, its version, and its fields by our names."""

    type_number: int
    version: int
    body: Body

    @property
    def type(self) -> str:
        """Kafka's name of the type, such as ``TOPIC_RECORD``."""
        return type_name(self.type_number)

    def json(self) -> dict[str, Any]:
        """The record as kafka-dump-log prints it: ``type``, ``version``, ``data``."""
        data = body_json(TABLES[self.type_number].body, self.body, self.version)
        return {"type": self.type, "version": self.version, "data": data}


def read_metadata_record(value: Buffer | None) -> MetadataRecord:
    """The record in the value of a record of the log.

    Errors: INVALID_RECORD for an unknown frame, type or version, and for a body that is cut, too long or malformed.
    """
    if value is None:
        raise _refusal("it has no value")
    end = len(value)
    if end > VALUE_SIZE_BYTES_MAX:
        raise _refusal(f"it has {end} bytes, more than {VALUE_SIZE_BYTES_MAX}")
    try:
        frame_version, position = read_uvarint(value, 0, end, "frame version")
        if frame_version != FRAME_VERSION:
            raise _refusal(f"its frame has version {frame_version}, not {FRAME_VERSION}")
        number, position = read_uvarint(value, position, end, "type")
        version, position = read_uvarint(value, position, end, "version")
        table = TABLES.get(number)
        if table is None:
            raise _refusal(f"Kafka {KAFKA_VERSION} has no type {number}")
        if version not in table.versions:
            known = table.versions.max
            raise _refusal(f"{type_name(number)} has version {version}; Kafka {KAFKA_VERSION} has none above {known}")
        body, position = _reader(number, version)(value, position, end)
    except ProtocolError as error:
        raise error if error.code == ErrorCode.INVALID_RECORD else _refusal(str(error)) from None
    if position != end:
        raise _refusal(f"{end - position} bytes follow its {type_name(number)}")
    return MetadataRecord(number, version, body)


@cache
def type_name(number: int) -> str:
    """Kafka's name of a type that `TABLES` has."""
    return snake_case(TABLES[number].name).upper()


def metadata_tables() -> dict[str, Message]:
    """The table of each type, by Kafka's name of the type."""
    return {type_name(number): table for number, table in TABLES.items()}


@cache
def _reader(number: int, version: int) -> Read:
    # Compiled when the first such record is read: a log has a few of the types, and most commands read none.
    return compile_reader(TABLES[number], version, keeps_unknown_tags=False)


def _refusal(problem: str) -> ProtocolError:
    return ProtocolError(f"not a metadata record that can be read: {problem}", ErrorCode.INVALID_RECORD)
