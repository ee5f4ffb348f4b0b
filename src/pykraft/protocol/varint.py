"""Zigzag varints: how a record writes its lengths, deltas and counts.

A signed number n becomes the unsigned ``(n << 1) ^ (n >> 63)``, which keeps small absolute values small. It is written
in groups of seven bits, lowest group first; the high bit of a byte says that another byte follows. An int32 takes at
most 5 bytes, an int64 at most 10.

Message schemas use *unsigned* varints instead, which are in `primitives`. Reading never goes beyond the buffer or the
requested width; a longer form of a number than needed is accepted, as in Kafka.

Source: KIP-98 §Message Format; Kafka's ``ByteUtils.readVarint``, ``readVarlong``.
"""

from __future__ import annotations

from typing import Final

from pykraft.errors import ErrorCode, ProtocolError
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
