"""What a record is to the application, and what it is in the log: bytes.

A serde is any object with these two methods; here are those for bytes, text, JSON and whole numbers. Invariant: what
`Serde.serialize` made, `Serde.deserialize` of the same serde reads. A record takes at least one byte: an empty one is
refused by the node, since no KRaft reader accepts it. Neither method may keep or change what it is given.

Source: Kafka's ``RecordSerde`` and ``StringSerde``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, Protocol, TypeVar

from pykraft.errors import UsageError

T = TypeVar("T")


class Serde(Protocol[T]):
    """Turns records into bytes and back."""

    def serialize(self, record: T) -> bytes:
        """The bytes of a record, at least one. Whatever it raises reaches who appends; nothing is appended then."""
        ...

    def deserialize(self, data: bytes) -> T:
        """The record. Whatever it raises ends a listener's call, and with it the node: the log cannot be read."""
        ...


class _Bytes:
    """Records are bytes already."""

    def serialize(self, record: bytes) -> bytes:
        if not isinstance(record, bytes):
            raise TypeError(f"a record is bytes here, not {type(record).__name__}: give the Node a serde")
        return record

    def deserialize(self, data: bytes) -> bytes:
        return data


class _Text:
    """UTF-8."""

    def serialize(self, record: str) -> bytes:
        if not isinstance(record, str):
            raise TypeError(f"a record is text here, not {type(record).__name__}")
        return record.encode()

    def deserialize(self, data: bytes) -> str:
        return data.decode()


class _Json:
    """Compact UTF-8; what Python's ``json`` takes, but no NaN or infinity, which other languages cannot read."""

    def serialize(self, record: Any) -> bytes:  # noqa: ANN401 - JSON has no narrower type
        return json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()

    def deserialize(self, data: bytes) -> Any:  # noqa: ANN401 - as above
        return json.loads(data)


class _Int:
    """A whole number from -2**63 to 2**63 - 1 in eight bytes, big-endian."""

    def serialize(self, record: int) -> bytes:
        if not isinstance(record, int):
            raise TypeError(f"a record is a whole number here, not {type(record).__name__}")
        return record.to_bytes(8, "big", signed=True)

    def deserialize(self, data: bytes) -> int:
        if len(data) != 8:
            raise ValueError(f"a number takes 8 bytes, found {len(data)}")
        return int.from_bytes(data, "big", signed=True)


bytes_serde: Final[Serde[bytes]] = _Bytes()
"""Records are bytes."""
text_serde: Final[Serde[str]] = _Text()
"""Records are text, in UTF-8."""
json_serde: Final[Serde[Any]] = _Json()
"""Records are what JSON can say."""
int_serde: Final[Serde[int]] = _Int()
"""Records are whole numbers of 64 bits with a sign."""


def serialized(serde: Serde[T], records: Iterable[T]) -> list[bytes]:
    """The values of records that are to be appended together, in their order.

    Errors: UsageError for no records, for text or bytes in place of a list of them, and for an empty value; TypeError
    when the serde does not make bytes; whatever the serde raises.
    """
    if isinstance(records, str | bytes | bytearray | memoryview):
        kind = type(records).__name__
        raise UsageError(f"records come as a list, also a single one: [record], and not as one {kind}")
    values = [*map(serde.serialize, records)]
    if not values:
        raise UsageError("there is nothing to append: give at least one record")
    odd = {*map(type, values)} - {bytes}
    if odd:
        raise TypeError(f"{serde!r} serialized a record as {odd.pop().__name__}, and not as bytes")
    if not all(values):
        raise UsageError("a record takes at least one byte in the log: the serde made an empty one")
    return values


def check_serde(serde: object) -> None:
    """Refuse what is no serde. Errors: UsageError naming the method that is missing."""
    for name in ("serialize", "deserialize"):
        if isinstance(serde, type) or not callable(getattr(serde, name, None)):
            raise UsageError(f"{serde!r} is no serde: it is an object with the methods serialize and deserialize")
