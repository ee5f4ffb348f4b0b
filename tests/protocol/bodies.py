"""Message bodies drawn from the schema tables, for property tests.

A body holds what its version can carry; where the version lacks a field, the body holds the field's default,
as a decoded one does, so that reading what was written must give the same body.
"""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from pykraft.errors import ErrorCode
from pykraft.protocol.messages import APIS
from pykraft.protocol.primitives import UNKNOWN_TAGS
from pykraft.protocol.reader import compile_reader
from pykraft.protocol.schema import Array, Body, Field, Kind, Message, Struct
from pykraft.protocol.writer import compile_writer
from pykraft.types import Buffer

_RANGES = {
    Kind.INT8: (-(2**7), 2**7 - 1),
    Kind.INT16: (-(2**15), 2**15 - 1),
    Kind.UINT16: (0, 2**16 - 1),
    Kind.INT32: (-(2**31), 2**31 - 1),
    Kind.INT64: (-(2**63), 2**63 - 1),
}
_UNKNOWN_TAGS = st.dictionaries(st.integers(100, 2**32 - 1), st.binary(max_size=200), min_size=1, max_size=3)

ALL_MESSAGES = [
    (message, version)
    for api in APIS.values()
    for message in (api.request, api.response)
    for version in range(message.versions.min, message.versions.max + 1)
]


_reader = cache(compile_reader)
_writer = cache(compile_writer)


def read(message: Message, version: int, raw: Buffer) -> tuple[Body, int]:
    """Read a body that fills ``raw``."""
    return _reader(message, version)(raw, 0, len(raw))


def write(message: Message, version: int, body: Body, head: bytes = b"") -> bytes:
    """Write a body as one piece."""
    return b"".join(_writer(message, version)(body, head))


def message_id(value: object) -> str:
    """A readable name for a parametrized message or version."""
    if isinstance(value, Message):
        return value.name
    return "kio" if isinstance(value, type) else f"v{value}"


def bodies(message: Message, version: int, *, unknown_tags: bool = True) -> st.SearchStrategy[Body]:
    """Bodies of this version; ``unknown_tags``: some structs of flexible versions hold tags of the future."""
    return _struct(message.body, version, unknown_tags=unknown_tags and version in message.flexible)


def _struct(schema: Struct, version: int, *, unknown_tags: bool) -> st.SearchStrategy[Body]:
    fixed: dict[str, st.SearchStrategy[Any]] = {
        one.name: _field(one, version, unknown_tags=unknown_tags) for one in schema.fields
    }
    optional: dict[str, st.SearchStrategy[Any]] = {UNKNOWN_TAGS: _UNKNOWN_TAGS} if unknown_tags else {}
    return st.fixed_dictionaries(fixed, optional=optional)


def _field(one: Field, version: int, *, unknown_tags: bool) -> st.SearchStrategy[Any]:
    if version not in one.present:
        return st.just(one.default)
    values = _error_codes() if one.name == "error_code" else _value(one.kind, version, unknown_tags=unknown_tags)
    if one.may_be_null(version):
        values = st.none() | values
    return st.just(one.default) | values if one.tag is not None and not isinstance(one.kind, Struct) else values


def _value(kind: Kind | Struct | Array, version: int, *, unknown_tags: bool) -> st.SearchStrategy[Any]:
    match kind:
        case Struct():
            return _struct(kind, version, unknown_tags=unknown_tags)
        case Array():
            return st.lists(_value(kind.of, version, unknown_tags=unknown_tags), max_size=min(3, kind.count_max))
        case Kind.BOOL:
            return st.booleans()
        case Kind.UUID:
            return st.just(bytes(16)) | st.binary(min_size=16, max_size=16)
        case Kind.STRING:
            return st.text(max_size=20) | st.just("x" * 200)
        case Kind.BYTES:
            return st.binary(max_size=40) | st.just(b"b" * 200)
        case Kind.FLOAT64:
            return st.floats(allow_nan=False)
        case Kind.RECORDS:
            return st.binary(max_size=40) | st.just(b"r" * 600)
        case _:
            low, high = _RANGES[kind]
            return st.integers(low, high)


def _error_codes() -> st.SearchStrategy[int]:
    """Error codes that Kafka has; the twin refuses others, and knows none newer than Kafka 4.3's."""
    return st.sampled_from([int(code) for code in ErrorCode if code < ErrorCode.CONTROLLER_ID_NOT_REGISTERED])
