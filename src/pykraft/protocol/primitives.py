"""Variable-length parts of Kafka's messages and records: varints, strings, counts, tagged fields.

Reading gets ``end``, the end of the frame, and never looks beyond it. It compares a length or count with the remaining
bytes before it allocates anything, and each failure is a `ProtocolError` that says what was read (``what``: message,
version and field) and where. The generated readers use `struct` for fixed-size integers.

    unsigned varint   7 bits a byte, low bits first, 0x80 = more follow; at most 5 bytes, below 2**32
    zigzag varint     unsigned ``(n << 1) ^ (n >> 63)``, in records only; an int32 in at most 5 bytes, an int64 in 10
    length, count     N as int16 (string) or int32; -1 is null
    compact ...       N + 1 as unsigned varint; 0 is null
    tagged fields     varint count, then each: varint tag (ascending), varint size, bytes

A longer form of a zigzag varint than needed is accepted, as in Kafka.

Source: Kafka protocol guide §Protocol Primitive Types; KIP-482 §Tagged fields; KIP-98 §Message Format; Kafka's
``ByteUtils.readVarint``, ``readVarlong``.
"""

import struct
from typing import Final

from pykraft.errors import ErrorCode, ProtocolError, TooManyElementsError
from pykraft.types import Buffer

VARINT_SIZE_BYTES_MAX: Final = 5
VARLONG_SIZE_BYTES_MAX: Final = 10
_INT32_MASK: Final = 0xFFFF_FFFF
_INT64_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF


def encode_varint(value: int) -> bytes:
    """The zigzag form of an int32 or int64, in as few bytes as possible."""
    assert -(2**63) <= value < 2**63
    rest = (value << 1) ^ (value >> 63)
    if rest < 0x80:
        return bytes((rest,))
    encoded = bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def varint_size_bytes(value: int) -> int:
    """Bytes that `encode_varint` takes for this number: 1 to 10."""
    rest = (value << 1) ^ (value >> 63)
    return max(1, (rest.bit_length() + 6) // 7)


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Read an int32; returns it and the position after it.

    Errors: INVALID_RECORD when the data ends first or the number takes more than 5 bytes.
    """
    assert position >= 0
    try:  # Fast path: nearly all numbers take one byte (below 64) or two (below 8,192).
        first = data[position]
        if first < 0x80:
            return (first >> 1) ^ -(first & 1), position + 1
        second = data[position + 1]
        if second < 0x80:
            unsigned = first & 0x7F | second << 7
            return (unsigned >> 1) ^ -(unsigned & 1), position + 2
    except IndexError:
        pass
    unsigned, position = _read_unsigned(data, position, VARINT_SIZE_BYTES_MAX)
    unsigned &= _INT32_MASK
    return (unsigned >> 1) ^ -(unsigned & 1), position


def read_varlong(data: Buffer, position: int) -> tuple[int, int]:
    """Read an int64; returns it and the position after it.

    Errors: INVALID_RECORD when the data ends first or the number takes more than 10 bytes.
    """
    unsigned, position = _read_unsigned(data, position, VARLONG_SIZE_BYTES_MAX)
    unsigned &= _INT64_MASK
    return (unsigned >> 1) ^ -(unsigned & 1), position


def _read_unsigned(data: Buffer, position: int, size_bytes_max: int) -> tuple[int, int]:
    value = 0
    for index in range(size_bytes_max):
        if position + index >= len(data):
            raise ProtocolError(f"a varint is cut off at byte {position + index}", ErrorCode.INVALID_RECORD)
        byte = data[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise ProtocolError(f"the varint at byte {position} takes over {size_bytes_max} bytes", ErrorCode.INVALID_RECORD)


UVARINT_SIZE_BYTES_MAX = 5
UVARINT_MAX = 2**32 - 1
STRING_SIZE_BYTES_MAX = 2**15 - 1
"""Kafka refuses longer strings, also compact ones."""
TAGGED_FIELDS_MAX = 128
"""More tagged fields than any struct of Kafka will have; limits what a peer makes us keep."""

UNKNOWN_TAGS = "_unknown_tags"
"""Key in a decoded struct for tagged fields that the schema does not know, by tag."""

_SMALL = tuple(bytes((value,)) for value in range(0x80))
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def cut_off(what: str, position: int, size_bytes: int, end: int) -> ProtocolError:
    """The error for a part that does not fit into the rest of the frame."""
    return ProtocolError(f"{what}: needs {size_bytes} bytes at position {position}, {end - position} remain")


def encode_uvarint(value: int) -> bytes:
    """Write an unsigned varint, 0 <= value < 2**32."""
    assert 0 <= value <= UVARINT_MAX, f"{value} is not an unsigned varint of 32 bits"
    if value < 0x80:
        return _SMALL[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: Buffer, position: int, end: int, what: str) -> tuple[int, int]:
    """Read an unsigned varint; returns the value and the position after it.

    Errors: ProtocolError when it is cut off, longer than 5 bytes or not below 2**32.
    """
    value = shift = 0
    for index in range(position, position + UVARINT_SIZE_BYTES_MAX):
        if index >= end:
            raise cut_off(what, index, 1, end)
        byte = buffer[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > UVARINT_MAX:
                break
            return value, index + 1
        shift += 7
    raise ProtocolError(f"{what}: the varint at position {position} does not fit into 32 bits")


def read_compact_size(buffer: Buffer, position: int, end: int, what: str) -> tuple[int, int]:
    """Read a compact length or count, not checked yet; -1 is null."""
    if position < end and (byte := buffer[position]) < 0x80:
        return byte - 1, position + 1
    value, position = read_uvarint(buffer, position, end, what)
    return value - 1, position


def read_int16(buffer: Buffer, position: int, end: int, what: str) -> tuple[int, int]:
    """Read the length of a string in a version that is not flexible; -1 is null."""
    if end - position < 2:
        raise cut_off(what, position, 2, end)
    return _INT16.unpack_from(buffer, position)[0], position + 2


def read_int32(buffer: Buffer, position: int, end: int, what: str) -> tuple[int, int]:
    """Read a count, or the length of records, in a version that is not flexible; -1 is null."""
    if end - position < 4:
        raise cut_off(what, position, 4, end)
    return _INT32.unpack_from(buffer, position)[0], position + 4


def read_text(buffer: Buffer, position: int, end: int, size_bytes: int, what: str) -> str:
    """Read the UTF-8 text of a string whose length was read before.

    Errors: ProtocolError when the length is negative, above 32767 or beyond the frame, or the text is not UTF-8.
    """
    if not 0 <= size_bytes <= STRING_SIZE_BYTES_MAX:
        raise ProtocolError(f"{what}: a string before position {position} has the length {size_bytes}")
    if size_bytes > end - position:
        raise cut_off(what, position, size_bytes, end)
    try:
        return str(buffer[position : position + size_bytes], "utf-8")
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{what}: the string at position {position} is not UTF-8: {error.reason}") from error


def read_view(buffer: Buffer, position: int, end: int, size_bytes: int, what: str) -> memoryview:
    """A view of records whose length was read before; nothing is copied.

    Errors: ProtocolError when the length is negative or beyond the frame.
    """
    if size_bytes < 0:
        raise ProtocolError(f"{what}: the bytes before position {position} have the length {size_bytes}")
    if size_bytes > end - position:
        raise cut_off(what, position, size_bytes, end)
    return memoryview(buffer)[position : position + size_bytes]


def check_count(count: int, position: int, end: int, element_size_bytes_min: int, what: str) -> None:
    """Compare a count with the remaining bytes, before its elements are read.

    Errors: ProtocolError when it is negative or more than ``end`` leaves room for.
    """
    if count < 0:
        raise ProtocolError(f"{what}: the array before position {position} has {count} elements")
    if count * element_size_bytes_min > end - position:
        raise ProtocolError(
            f"{what}: {count} elements of at least {element_size_bytes_min} bytes at position {position}, "
            f"{end - position} bytes remain"
        )


def check_count_max(count: int, position: int, count_max: int, what: str) -> None:
    """Errors: TooManyElementsError when an array has more than ``count_max`` elements."""
    if count > count_max:
        raise TooManyElementsError(f"{what}: {count} elements before position {position}, at most {count_max}")


def read_tags_count(buffer: Buffer, position: int, end: int, what: str) -> tuple[int, int]:
    """Read the number of tagged fields of a struct.

    Errors: ProtocolError when it is more than `TAGGED_FIELDS_MAX` or than the frame leaves room for.
    """
    count, position = read_compact_size(buffer, position, end, what)
    count += 1  # `read_compact_size` subtracts 1, which is only right for a length
    if count > TAGGED_FIELDS_MAX:
        raise ProtocolError(f"{what}: {count} tagged fields before position {position}, at most {TAGGED_FIELDS_MAX}")
    check_count(count, position, end, 2, what)
    return count, position


def read_tag(buffer: Buffer, position: int, end: int, last_tag: int, what: str) -> tuple[int, int, int]:
    """Read tag and size of one tagged field; returns the tag, its data's position and end.

    Errors: ProtocolError when the tag is not above ``last_tag`` or the data goes beyond the frame.
    """
    data_position = position + 2
    if data_position > end or (tag := buffer[position]) > 0x7F or (size_bytes := buffer[position + 1]) > 0x7F:
        tag, data_position = read_uvarint(buffer, position, end, what)
        size_bytes, data_position = read_uvarint(buffer, data_position, end, what)
    if tag <= last_tag:
        raise ProtocolError(f"{what}: tag {tag} at position {position} follows tag {last_tag}")
    if size_bytes > end - data_position:
        raise cut_off(what, data_position, size_bytes, end)
    return tag, data_position, data_position + size_bytes


def read_unknown_tags(buffer: Buffer, position: int, end: int, what: str) -> tuple[dict[int, bytes], int]:
    """Read the tagged fields of a struct whose schema has none, and keep them all."""
    count, position = read_tags_count(buffer, position, end, what)
    unknown: dict[int, bytes] = {}
    tag = -1
    for _ in range(count):
        tag, position, data_end = read_tag(buffer, position, end, tag, what)
        unknown[tag] = bytes(buffer[position:data_end])
        position = data_end
    return unknown, position


def skip_tags(buffer: Buffer, position: int, end: int, what: str) -> int:
    """Check the tagged fields of a struct without keeping them; returns the position after them."""
    count, position = read_tags_count(buffer, position, end, what)
    tag = -1
    for _ in range(count):
        tag, _, position = read_tag(buffer, position, end, tag, what)
    return position


def encode_tags(tags: dict[int, bytes]) -> bytes:
    """Write tagged fields, known and unknown, in tag order."""
    parts = [encode_uvarint(len(tags))]
    for tag in sorted(tags):
        data = tags[tag]
        size_bytes = len(data)
        if tag < 0x80 and size_bytes < 0x80:
            parts.append(_SMALL[tag] + _SMALL[size_bytes] + data)
        else:
            parts += (encode_uvarint(tag), encode_uvarint(size_bytes), data)
    return b"".join(parts)


def encode_compact_string(value: str) -> bytes:
    """Write a string in a flexible version."""
    raw = value.encode()
    size = len(raw) + 1
    assert size <= STRING_SIZE_BYTES_MAX + 1, f"a string of {size - 1} bytes is too long"
    return (_SMALL[size] if size < 0x80 else encode_uvarint(size)) + raw


def encode_string(value: str) -> bytes:
    """Write a string in a version that is not flexible, or in a header."""
    raw = value.encode()
    assert len(raw) <= STRING_SIZE_BYTES_MAX, f"a string of {len(raw)} bytes is too long"
    return _INT16.pack(len(raw)) + raw


def encode_compact_size(size: int) -> bytes:
    """Write a compact length or count; -1 is null."""
    return encode_uvarint(size + 1)


def encode_size(size: int) -> bytes:
    """Write a count, or the length of records, in a version that is not flexible; -1 is null."""
    return _INT32.pack(size)
