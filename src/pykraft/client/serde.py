"""Turns records of the application into the bytes in the log, and back.

Invariant: `Serde.deserialize` reads what `Serde.serialize` of the same serde wrote. A record has at least one byte: the
node refuses an empty one, since no KRaft reader accepts it. Neither method may keep or change its argument.

Source: Kafka's ``RecordSerde`` and ``StringSerde``.
"""

import json
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final, Protocol, TypeVar, cast

from pykraft.client.arguments import Records
from pykraft.errors import UsageError
from pykraft.record_list import check_records

T = TypeVar("T")
_ONLY_BYTES: Final = {bytes}
_ZERO: Final = b"0"[0]
# Made once: `json.dumps` makes one for each call with these settings.
_encode_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_JSON: Final = json.JSONDecoder()
NESTING_MAX: Final = 128
"""Lists and objects within each other. Python gives up at a depth that depends on its stack, so on one node only."""
FLAT_LEVELS: Final = 3
_LEVELS: Final = bytes.maketrans(b"[{]}", b"\2\2\0\0")
"""What opens is one level more than 1, and what closes one less."""
_OTHERS: Final = bytes({*range(256)} - {*b"[{]}"})
DEEPEST: Final = b"\2" * (NESTING_MAX + 1)


class Serde(Protocol[T]):
    """Turns records into bytes and back."""

    def serialize(self, record: T) -> bytes:
        """The bytes of a record, at least one. An exception reaches the caller of the append; nothing is appended."""
        ...

    def deserialize(self, data: bytes) -> T:
        """The record. An exception ends the listener's call and the node, because it cannot read its log."""
        ...


class _Bytes:
    """Records that are bytes already."""

    def serialize(self, record: bytes) -> bytes:
        if not isinstance(record, bytes):
            raise TypeError(f"a record is bytes here, not {type(record).__name__}: give the Node a serde")
        return record

    def deserialize(self, data: bytes) -> bytes:
        return data


class _Text:
    def serialize(self, record: str) -> bytes:
        if not isinstance(record, str):
            raise TypeError(f"a record is text here, not {type(record).__name__}")
        return record.encode()

    def deserialize(self, data: bytes) -> str:
        return data.decode()


class _Json:
    """Compact JSON in UTF-8. NaN and infinity are refused, because other languages cannot read them."""

    def serialize(self, record: Any) -> bytes:  # noqa: ANN401 - JSON has no narrower type
        if type(record) is int:  # many a result is one
            return str(record).encode()
        return nested_little(lambda: _encode_json(record).encode())

    def deserialize(self, data: bytes) -> Any:  # noqa: ANN401 - as above
        if data.isdigit() and (data[0] != _ZERO or len(data) == 1):  # as above; JSON allows no other zero at the front
            return int(data)
        return from_json(data)


class _Int:
    """An int from -2**63 to 2**63 - 1 in eight bytes, big-endian."""

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
"""Records are values that JSON can express."""
int_serde: Final[Serde[int]] = _Int()
"""Records are signed 64-bit integers."""


def from_json(data: bytes) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """The value of JSON in UTF-8. Errors: ValueError, also for one that nests deeper than `NESTING_MAX`."""
    check_nesting(data)
    text = data.decode()
    try:
        # Without the spaces that JSON allows around a value this is all, in a fraction of the time.
        value, end = _JSON.raw_decode(text)
    except ValueError:
        return _JSON.decode(text)
    return value if end == len(text) else _JSON.decode(text)


def nested_little(encode: Callable[[], bytes]) -> bytes:
    """The JSON that ``encode`` writes, if `from_json` reads it. Errors: ValueError for one that nests too deep."""
    try:
        data = encode()
    except RecursionError:  # the stacks of other nodes may be deeper, but no reader takes so much
        raise _too_deep() from None
    check_nesting(data)
    return data


def check_nesting(data: bytes) -> None:
    """Refuse JSON that nests deeper than `NESTING_MAX`. Errors: ValueError."""
    if data.count(b"[") + data.count(b"{") > NESTING_MAX and _nesting(data) > NESTING_MAX:
        raise _too_deep()


def _too_deep() -> ValueError:
    return ValueError(f"it has more than {NESTING_MAX} lists and objects within each other")


def _nesting(data: bytes) -> int:
    """The deepest level; each step is one call for all of the data, since it may be large."""
    # Every other part between quotes is a text; quotes that are escaped go first.
    parts = data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    brackets = b"".join(parts).translate(_LEVELS, _OTHERS)
    for _ in range(FLAT_LEVELS):  # most lists are flat
        brackets = brackets.replace(b"\x02\x00", b"")
    if DEEPEST in brackets:
        return NESTING_MAX + 1
    return FLAT_LEVELS + max(accumulate(map((-1).__add__, brackets)), default=0)


def serialized(serde: Serde[T], records: Records[T]) -> list[bytes]:
    """The values of records that are to be appended together, in order.

    Errors: UsageError for no records, for a single record or a set instead of a list, and for an empty value; TypeError
    when the serde does not return bytes; any exception of the serde.
    """
    check_records(records)
    # Records of bytes are their own bytes; what else is among them is refused by the serde.
    is_done = serde is bytes_serde and {*map(type, records)} == _ONLY_BYTES
    values = [*cast("Records[bytes]", records)] if is_done else [*map(serde.serialize, records)]
    # One comparison for the common case: each call of `propose` comes through here.
    if {*map(type, values)} != _ONLY_BYTES or not all(values):
        raise _unfit(serde, values)
    return values


def _unfit(serde: Serde[Any], values: Sequence[object]) -> Exception:
    if not values:
        return UsageError("there is nothing to append: give at least one record")
    for value in values:
        if type(value) is not bytes:
            return TypeError(f"{serde!r} serialized a record as {type(value).__name__}, not as bytes")
    return UsageError("a record takes at least one byte in the log: the serde made an empty one")


def check_serde(serde: object) -> None:
    """Refuse an object that is not a serde. Errors: UsageError naming the method that is missing."""
    for name in ("serialize", "deserialize"):
        if isinstance(serde, type) or not callable(getattr(serde, name, None)):
            raise UsageError(f"{serde!r} is not a serde: a serde has the methods serialize and deserialize")
