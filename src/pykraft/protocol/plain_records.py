"""A quick answer to whether the records of a batch are well formed, without making an object of any.

It is one loop over the bytes, several times as fast as reading the records. Invariant: what passes here also passes
`pykraft.protocol.records.iterate_records`. Whatever is unusual does not pass, though it may be right: records with
headers, gaps between offsets, the time of the append, numbers written in more bytes than they need, very large times.
The full reader decides on those, and says what is wrong.

Source: Kafka's ``DefaultRecord.readPartiallyFrom``, which also skips keys and values.
"""

from __future__ import annotations

from typing import Final

from pykraft.errors import ProtocolError
from pykraft.protocol.batch import BatchHeader
from pykraft.protocol.varint import read_varint

_NULL: Final = 1
"""The length -1 as a zigzag varint."""
_TIME_SIZE_BYTES_MAX: Final = 8
"""A longer time delta might leave int64; a shorter one cannot, added to a time below `_BASE_TIMESTAMP_MAX`."""
_BASE_TIMESTAMP_MAX: Final = 2**62


def are_plain_records(header: BatchHeader, body: bytes, *, is_kraft: bool) -> bool:
    """Whether these decompressed records are surely well formed; False when the full reader has to decide.

    ``is_kraft``: also whether they have values only, none of them empty, and the time of the batch.
    """
    if header.records_count != header.last_offset_delta + 1 or header.is_log_append_time:
        return False
    if not -_BASE_TIMESTAMP_MAX < header.base_timestamp < _BASE_TIMESTAMP_MAX:
        return False
    try:
        position = _end_of_plain(body, header.records_count, is_kraft=is_kraft)
    except (IndexError, ProtocolError):
        # A length leads out of the batch, or a number is too long.
        return False
    return position == len(body)


def _end_of_plain(body: bytes, count: int, *, is_kraft: bool) -> int:
    """The position after so many plain records; -1 when one is not plain. Errors: IndexError, ProtocolError."""
    position = 0
    for index in range(count):
        size_bytes, position = read_varint(body, position)
        end = position + size_bytes
        position += 1  # The attributes.
        times = position
        while body[position] > 0x7F:
            position += 1
        if position - times >= _TIME_SIZE_BYTES_MAX or (is_kraft and body[times] != 0):
            return -1
        delta, position = read_varint(body, position + 1)
        key = body[position]
        if key == _NULL:
            position += 1
        elif is_kraft:
            return -1
        else:
            key, position = read_varint(body, position)
            if key < 0:
                return -1
            position += key
        value = body[position]
        if value == _NULL:
            value, position = 0, position + 1
        else:
            value, position = read_varint(body, position)
        if value < 0 or (is_kraft and value == 0):
            return -1
        position += value
        # No headers, and the record ends where its length says.
        if body[position] != 0 or position + 1 != end or delta != index:
            return -1
        position = end
    return position
