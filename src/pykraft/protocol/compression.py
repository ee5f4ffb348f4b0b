"""Decompresses the records of a batch, without trusting how far they expand.

A batch's attributes name one of five codecs; its records (never its header) are compressed as one stream:

| bits 0-2 | codec | stream |
|---|---|---|
| 0 | none | the records |
| 1 | gzip | RFC 1952, one or more members, at most `FRAMES_MAX` |
| 2 | snappy | one raw block, or xerial framing with blocks of 1 KiB on average, and `FRAMES_MAX` more |
| 3 | lz4 | LZ4 frames |
| 4 | zstd | RFC 8878 frames, at most `FRAMES_MAX` |

Xerial framing: magic ``82 53 4e 41 50 50 59 00``, int32 version, int32 oldest compatible reader version; then per block
an int32 length and a raw block.

Invariant: no codec writes more than ``size_bytes_max`` bytes, however small the input. Buffers grow with the bytes
really written, not with what a header promises. (The window of a zstd frame is address space, limited by the library to
128 MiB, and touched only as far as it is filled.)

Source: KIP-98, KIP-110; Kafka's ``CompressionType``; the framing of snappy-java's ``SnappyOutputStream``.
"""

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final, assert_never

import cramjam

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.types import Buffer

DECOMPRESSED_SIZE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Default limit for the expanded size of a batch; Kafka's batches have 1 MiB (data) and 8 MiB (metadata)."""

_FIRST_GUESS_BYTES_MIN: Final = 16 * 1024
_GROWTH: Final = 8
_NO_ROOM: Final = "failed to write whole buffer"
"""In the library's error when a buffer is too small. With other words a bomb would count as damaged: no more."""
_SNAPPY_EXPANSION_MAX: Final = 22
"""Three bytes of snappy copy at most 64, so a block cannot expand by more than this factor."""
_LZ4_EXPANSION_MAX: Final = 255
"""One byte lengthens a match by at most 255."""
_ZSTD_EXPANSION_MAX: Final = 32_768
"""A block takes at least 4 bytes and gives at most 128 KiB."""
FRAMES_MAX: Final = 64
"""Most gzip members or zstd frames in one batch: producers write one. An empty one costs as much as a full one."""
_ZSTD_HEADER: Final = struct.Struct("<II")
_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_SKIPPABLE_MAGIC: Final = 0x184D2A50
_ZSTD_RLE: Final = 1
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE_BYTES: Final = 16
_XERIAL_BLOCK_SIZE_BYTES_MIN: Final = 1024
"""snappy-java's least; producers write 32 KiB. A block takes 5 bytes and a microsecond, even if it holds nothing."""
_GZIP_WINDOW_BITS: Final = 16 + zlib.MAX_WBITS
_INT32: Final = struct.Struct(">i")


class Compression(IntEnum):
    """Codec of a batch: bits 0 to 2 of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def decompress(compression: Compression, data: Buffer, *, size_bytes_max: int = DECOMPRESSED_SIZE_BYTES_MAX) -> Buffer:
    """The records of a batch before compression.

    Errors: CORRUPT_MESSAGE when the stream is damaged or cut, MESSAGE_TOO_LARGE when it expands beyond
    ``size_bytes_max``.
    """
    match compression:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return _gunzip(data, size_bytes_max)
        case Compression.SNAPPY:
            return _unsnappy(memoryview(data), size_bytes_max)
        case Compression.LZ4:
            return _grow("lz4", data, cramjam.lz4.decompress_into, _LZ4_EXPANSION_MAX, size_bytes_max)
        case Compression.ZSTD:
            _check_zstd_frames(memoryview(data))
            return _grow("zstd", data, cramjam.zstd.decompress_into, _ZSTD_EXPANSION_MAX, size_bytes_max)
        case _:
            assert_never(compression)


def _refusal(codec: str, problem: object) -> ProtocolError:
    return ProtocolError(f"the {codec} records of a batch cannot be decompressed: {problem}", ErrorCode.CORRUPT_MESSAGE)


def _too_large(codec: str, size_bytes_max: int) -> ProtocolError:
    text = f"the {codec} records of a batch expand beyond {size_bytes_max} bytes"
    return ProtocolError(text, ErrorCode.MESSAGE_TOO_LARGE)


def _gunzip(data: Buffer, size_bytes_max: int) -> bytes:
    members: list[bytes] = []
    room = size_bytes_max
    rest = data
    while rest or not members:
        if len(members) >= FRAMES_MAX:  # each member copies the bytes behind it
            raise _refusal("gzip", f"more than {FRAMES_MAX} members")
        member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        try:
            members.append(member.decompress(rest, room + 1))
        except zlib.error as error:
            raise _refusal("gzip", error) from None
        room -= len(members[-1])
        if room < 0:
            raise _too_large("gzip", size_bytes_max)
        if not member.eof:
            raise _refusal("gzip", "the stream is cut off")
        rest = member.unused_data
    return b"".join(members)


def _check_zstd_frames(data: memoryview) -> None:
    """Count frames by their headers and blocks only; the library finds malformed ones.

    Errors: CORRUPT_MESSAGE for more frames than any producer writes.
    """
    position = 0
    for _ in range(FRAMES_MAX):
        found = _zstd_frame_end(data, position)
        if found is None or found >= len(data):
            return
        position = found
    raise _refusal("zstd", f"more than {FRAMES_MAX} frames")


def _zstd_frame_end(data: memoryview, position: int) -> int | None:
    """End of the frame that begins here, by RFC 8878 §3.1; None when it is cut off or not a frame."""
    if position + _ZSTD_HEADER.size > len(data):
        return None
    magic, size_bytes = _ZSTD_HEADER.unpack_from(data, position)
    if magic & ~0xF == _ZSTD_SKIPPABLE_MAGIC:
        return position + _ZSTD_HEADER.size + int(size_bytes)
    if magic != _ZSTD_MAGIC:
        return None
    descriptor = data[position + 4]
    is_single = descriptor >> 5 & 1
    content_size_bytes = (is_single, 2, 4, 8)[descriptor >> 6]
    position += 5 + (1 - is_single) + (0, 1, 2, 4)[descriptor & 3] + content_size_bytes
    is_last = 0
    while not is_last:
        if position + 3 > len(data):
            return None
        block = int.from_bytes(data[position : position + 3], "little")
        is_last, kind = block & 1, block >> 1 & 3
        position += 3 + (1 if kind == _ZSTD_RLE else block >> 3)
    return position + (4 if descriptor & 4 else 0)


def _unsnappy(data: memoryview, size_bytes_max: int) -> bytes:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _unsnappy_block(data, size_bytes_max, size_bytes_max)
    blocks: list[bytes] = []
    room = size_bytes_max
    position = _XERIAL_HEADER_SIZE_BYTES
    while position < len(data):
        if position + _INT32.size > len(data):
            raise _refusal("snappy", f"the length at byte {position} is cut off")
        (block_size_bytes,) = _INT32.unpack_from(data, position)
        position += _INT32.size
        if not 0 <= block_size_bytes <= len(data) - position:
            found = f"{len(data) - position} of {block_size_bytes} bytes"
            raise _refusal("snappy", f"the block at byte {position} is cut off: {found}")
        if len(blocks) >= FRAMES_MAX + (size_bytes_max - room) // _XERIAL_BLOCK_SIZE_BYTES_MIN:
            raise _refusal("snappy", f"{len(blocks)} blocks hold only {size_bytes_max - room} bytes")
        blocks.append(_unsnappy_block(data[position : position + block_size_bytes], room, size_bytes_max))
        room -= len(blocks[-1])
        position += block_size_bytes
    return b"".join(blocks)


def _unsnappy_block(block: memoryview, room: int, size_bytes_max: int) -> bytes:
    try:
        size_bytes = cramjam.snappy.decompress_raw_len(block)
        if size_bytes > room:
            raise _too_large("snappy", size_bytes_max)
        # Do not allocate what the header promises without checking that the block can expand that far.
        if size_bytes > _SNAPPY_EXPANSION_MAX * len(block):
            raise _refusal("snappy", f"a block of {len(block)} bytes promises {size_bytes}")
        output = bytearray(size_bytes)
        found = cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise _refusal("snappy", error) from None
    assert found == size_bytes, "the library checks the promised length"
    return bytes(output)


def _grow(
    codec: str,
    data: Buffer,
    decompress_into: Callable[[Buffer, bytearray], int],
    expansion_max: int,
    size_bytes_max: int,
) -> bytes:
    """Decompress into ever larger buffers: these two codecs do not reliably tell the size of their output."""
    limit_bytes = min(size_bytes_max, expansion_max * len(data))
    guess_bytes = max(_FIRST_GUESS_BYTES_MIN, _GROWTH * len(data))
    while True:
        output = bytearray(min(guess_bytes, limit_bytes))
        try:
            size_bytes = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if len(output) == size_bytes_max and _NO_ROOM in str(error):
                raise _too_large(codec, size_bytes_max) from None
            if len(output) == limit_bytes:
                raise _refusal(codec, f"{error} (with room for {limit_bytes} bytes)") from None
            guess_bytes *= _GROWTH
        else:
            return bytes(memoryview(output)[:size_bytes])
