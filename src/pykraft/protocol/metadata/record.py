"""Reads one record of Kafka's metadata log from the value of a record in the log.

    frame version 1   type     version   body
      uvarint         uvarint  uvarint   as the table of the type says, always flexible

Invariant: whatever the bytes are, the only error is `ProtocolError`, and what is made of them is bounded by
`VALUE_SIZE_BYTES_MAX` and by the counts in the tables. `tables` is generated from Kafka's own schemas; a newer type or
version cannot be read, since nobody knows its fields.

Source: KIP-631; Kafka's ``AbstractApiMessageSerde``, ``MetadataRecordSerde``, ``MetadataRecordType``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.json_form import body_json, snake_case
from pykraft.protocol.metadata.tables import KAFKA_VERSION, TABLES
from pykraft.protocol.primitives import read_uvarint
from pykraft.protocol.reader import Read, compile_reader
from pykraft.protocol.schema import Body, Message
from pykraft.types import Buffer

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
