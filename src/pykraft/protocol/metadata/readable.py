"""A metadata record as people read it: its type and fields on one line, without secrets.

    TOPIC_RECORD name=orders topicId=FSyQqZ09TuS4n5hnnpPjmQ
    REGISTER_BROKER_RECORD brokerId=4 … endPoints=[PLAINTEXT 127.0.0.1 9092 0] features=[group.version 0 1, …]

Masked are what a SCRAM credential is made from, and the value of a configuration whose name says that it is a secret. A
delegation token's record has no secret: its HMAC is computed from the cluster's key. The text may hold any character of
a record; who prints it to a terminal escapes it.

Source: Kafka's ``RecordRedactor``, which masks the same two types.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, Final

from pykraft.protocol.metadata.record import MetadataRecord

MASK: Final = "***"
_SECRET_FIELDS: Final = {"USER_SCRAM_CREDENTIAL_RECORD": ("salt", "stored_key", "server_key")}
_SECRET_CONFIG: Final = re.compile(
    r"password|secret|credential|jaas\.config|private\.key|assertion|keystore\.(key|certificate)|truststore\.certificate",
    re.IGNORECASE,
)
"""Configurations of Kafka's type PASSWORD, and other names that say so."""
_BARE: Final = re.compile(r"[^\s\"'=\[\],]+")


def without_secrets(record: MetadataRecord) -> MetadataRecord:
    """The same record with each secret replaced by `MASK`."""
    names: tuple[str, ...] = _SECRET_FIELDS.get(record.type, ())
    if (
        record.type == "CONFIG_RECORD"
        and record.body["value"] is not None
        and _SECRET_CONFIG.search(record.body["name"])
    ):
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
