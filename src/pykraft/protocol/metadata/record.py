"""Reads one record of Kafka's metadata log, and shows it on one line, without secrets.

    frame version 1   type     version   body
      uvarint         uvarint  uvarint   as the table of the type says, always flexible

    TOPIC_RECORD name=orders topicId=FSyQqZ09TuS4n5hnnpPjmQ
    REGISTER_BROKER_RECORD brokerId=4 … endPoints=[PLAINTEXT 127.0.0.1 9092 0] features=[group.version 0 1, …]

Invariant: whatever the bytes are, the only error is `ProtocolError`, and what is made of them is bounded by
`VALUE_SIZE_BYTES_MAX` and by the counts in the tables. A newer type or version than those of `tables` cannot be read.

Masked are what a SCRAM credential is made from, and the value of a configuration whose name says that it is a secret. A
delegation token's record has none: its HMAC is computed from the cluster's key. The text may hold any character of a
record; who prints it to a terminal escapes it.

Source: KIP-631; Kafka's ``AbstractApiMessageSerde``, ``MetadataRecordSerde``, ``MetadataRecordType``, and
``RecordRedactor``, which masks the same two types.
"""

import json
import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.metadata.tables import KAFKA_VERSION, TABLES
from pykraft.protocol.primitives import read_uvarint
from pykraft.protocol.reader import Read, compile_reader
from pykraft.protocol.schema import Body, Message, body_json, snake_case
from pykraft.text.secrets import MASK, is_secret
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


_SECRET_FIELDS: Final = {"USER_SCRAM_CREDENTIAL_RECORD": ("salt", "stored_key", "server_key")}
_BARE: Final = re.compile(r"[^\s\"'=\[\],]+")


def without_secrets(record: MetadataRecord) -> MetadataRecord:
    """The same record with each secret replaced by `MASK`."""
    names: tuple[str, ...] = _SECRET_FIELDS.get(record.type, ())
    if record.type == "CONFIG_RECORD" and record.body["value"] is not None and is_secret(record.body["name"]):
        names = ("value",)
    return replace(record, body=record.body | dict.fromkeys(names, MASK)) if names else record


def one_line(record: MetadataRecord) -> str:
    """Type and fields; fields that are null are left out."""
    shown = without_secrets(record).json()
    fields = (f"{name}={_value(value)}" for name, value in shown["data"].items() if value is not None)
    return " ".join((shown["type"], *fields))


def _value(value: Any) -> str:  # noqa: ANN401 - any value of JSON
    match value:
        case list():
            return f"[{', '.join(map(_element, value))}]"
        case str() if not _BARE.fullmatch(value):  # it would not be seen where it ends
            return json.dumps(value, ensure_ascii=False)
        case bool():
            return str(value).lower()
    return "null" if value is None else str(value)


def _element(value: Any) -> str:  # noqa: ANN401 - any value of JSON
    return " ".join(map(_value, value.values())) if isinstance(value, dict) else _value(value)
