"""Bodies of messages as Kafka's tools print them in JSON.

Invariant: names, order and values are those of Kafka's converter for the version that was read.

- A field that the version lacks is absent, and so is a tagged field that has its default.
- A uuid is its 22 letters in base64url, bytes are base64, null is null.
- A number that JSON lacks is a string: ``NaN``, ``Infinity``, ``-Infinity``.

Source: Kafka's ``JsonConverterGenerator``; Jackson's ``DoubleNode`` for the numbers.
"""

from __future__ import annotations

import base64
import math
import re
from typing import Any, Final

from pykraft.protocol.schema import Array, Body, Kind, Struct
from pykraft.types import Uuid, uuid_text

_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def body_json(schema: Struct, body: Body, version: int) -> dict[str, Any]:
    """The fields of this version, under Kafka's names and in the order of the table."""
    return {
        camel_case(one.name): _value_json(one.kind, body[one.name], version)
        for one in schema.fields
        if version in one.present and (one.tag is None or body[one.name] != one.default)
    }


def camel_case(name: str) -> str:
    """Kafka's name of a field."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def snake_case(name: str) -> str:
    """Our name of Kafka's field or message."""
    return _WORD_START.sub("_", name).lower()


def _value_json(kind: Kind | Array | Struct, value: object, version: int) -> object:
    match kind, value:
        case Struct(), dict():
            return body_json(kind, value, version)
        case Array(of), list():
            return [_value_json(of, one, version) for one in value]
        case Kind.UUID, bytes():
            return uuid_text(Uuid(value))
        case Kind.BYTES, bytes():
            return base64.b64encode(value).decode("ascii")
        case Kind.FLOAT64, float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
