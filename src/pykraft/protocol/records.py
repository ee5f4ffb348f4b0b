"""Record batches version 2, as the rest of pykraft uses them, and single records of any kind.

The parts: `batch` has headers and CRCs, `values` KRaft's data batches (the hot path), `control` the content of control
records, `compression` the codecs. This module has control batches, and the reader for batches of any Kafka client:
keys, headers, individual times, gaps left by a cleaner.

A record (all integers zigzag varints unless said otherwise):

    length of the rest | attributes int8, not used | timestamp delta | offset delta | key length, -1 for null | key
    | value length, -1 for null | value | header count | per header: name length | name UTF-8 | value length | value

Invariants: a length or count is compared with the remaining bytes before anything is made from it. What passes
`are_plain_records`, one loop that makes no objects and is several times as fast, also passes `iterate_records`. What is
unusual does not pass there, though it may be right, and the full reader decides: headers, gaps between offsets, the
time of the append, numbers in more bytes than they need, very large times.

Source: KIP-98 §Message Format; KIP-82 for headers; Kafka's ``DefaultRecord`` and its ``readPartiallyFrom``.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.batch import (
    CONTROL_BIT,
    GROUP_STATE_BITS,
    HEADER_SIZE_BYTES,
    BatchHeader,
    EncodedBatch,
    check_crc,
    crc_of,
    open_batch,
    read_header,
    scan,
    seal_batch,
    unpack_header,
)
from pykraft.protocol.compression import DECOMPRESSED_SIZE_BYTES_MAX, Compression
from pykraft.protocol.control import (
    GROUP_STATE_KEY,
    ControlType,
    decode_control_value,
    encode_control,
    read_control_body,
)
from pykraft.protocol.primitives import encode_varint, read_varint, read_varlong
from pykraft.protocol.schema import Body
from pykraft.protocol.values import batch_size_bytes, decode_values, encode_batch, encode_in_place, records_size_bytes
from pykraft.types import Buffer, ControlRecord, Epoch, KRaftVersion, KRaftVoters, MembershipRecord, Offset

__all__ = [
    "HEADER_SIZE_BYTES",
    "BatchHeader",
    "Compression",
    "EncodedBatch",
    "Record",
    "batch_size_bytes",
    "check_crc",
    "control_records",
    "crc_of",
    "decode_control",
    "decode_group_batch",
    "decode_records",
    "decode_values",
    "encode_batch",
    "encode_control_batch",
    "encode_group_batch",
    "encode_in_place",
    "end_of_records",
    "iterate_body",
    "iterate_records",
    "membership_records",
    "open_batch",
    "read_header",
    "records_size_bytes",
    "scan",
    "unpack_header",
]

HEADERS_MAX: Final = 100_000
"""Most headers of all records of a batch. KRaft's records have none; compressed, millions take a few hundred bytes."""
_HEADER_SIZE_BYTES_MIN: Final = 2
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a consumer sees it. Timestamp in wall ms; ``sequence`` is -1 without an idempotent producer."""

    offset: Offset
    timestamp_ms: int
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def encode_control_batch(
    records: Sequence[ControlRecord], *, base_offset: Offset, epoch: Epoch, timestamp_ms: int
) -> EncodedBatch:
    """One control batch with these records, from ``base_offset`` on.

    Source: KIP-595 §LeaderChangeMessage; Kafka's ``MemoryRecords.withLeaderChangeMessage`` and similar methods.
    """
    found = [encode_control(record) for record in records]
    return _control_batch(found, CONTROL_BIT, base_offset=base_offset, epoch=epoch, timestamp_ms=timestamp_ms)


def encode_group_batch(values: Sequence[bytes], *, timestamp_ms: int, image_bits: int = 0) -> EncodedBatch:
    """One batch with these values of `pykraft.protocol.control.encode_group_state`, to be placed in the log."""
    found = [(GROUP_STATE_KEY, value) for value in values]
    attributes = GROUP_STATE_BITS | image_bits
    return _control_batch(found, attributes, base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=timestamp_ms)


def decode_group_batch(batch: Buffer, *, verify_crc: bool = False) -> list[Body]:
    """The changes of groups in one batch. Errors: ProtocolError, also for a record that is none of these."""
    found = [read_control_body(record.key, record.value) for record in decode_records(batch, verify_crc=verify_crc)]
    if any(kind is not ControlType.GROUP_STATE for kind, _ in found):
        raise ProtocolError("a batch of groups holds another control record", ErrorCode.INVALID_RECORD)
    return [body for _, body in found]


def _control_batch(
    records: Sequence[tuple[bytes, bytes]], attributes: int, *, base_offset: Offset, epoch: Epoch, timestamp_ms: int
) -> EncodedBatch:
    body: list[bytes] = []
    for delta, (key, value) in enumerate(records):
        sizes = encode_varint(len(key)), encode_varint(len(value))
        rest = b"".join((b"\x00\x00", encode_varint(delta), sizes[0], key, sizes[1], value, b"\x00"))
        body += (encode_varint(len(rest)), rest)
    return seal_batch(
        b"".join(body),
        count=len(records),
        base_offset=base_offset,
        epoch=epoch,
        timestamp_ms=timestamp_ms,
        attributes=attributes,
    )


def decode_control(batch: Buffer) -> list[ControlRecord]:
    """Raft's records in one control batch; none for the state of consumer groups.

    Errors: those of `decode_records`; INVALID_RECORD for a data batch, a compressed one, and for a record that is not
    one of Raft's.
    """
    header = read_header(batch)
    if not header.is_control:
        raise ProtocolError("a data batch holds no control records", ErrorCode.INVALID_RECORD)
    # No Kafka compresses control batches, and a small compressed one could expand into a lot of work.
    if header.compression is not Compression.NONE:
        raise ProtocolError("a control batch is never compressed", ErrorCode.INVALID_RECORD)
    if header.is_group_state:
        # What cannot be applied must not get into a log: each node would end with it, at every start.
        decode_group_batch(batch, verify_crc=True)
        return []
    return [decode_control_value(record.key, record.value) for record in decode_records(batch)]


def membership_records(batch: Buffer) -> Iterator[tuple[Offset, MembershipRecord]]:
    """The records about voters in one control batch, with their offsets. Errors: those of `control_records`."""
    for offset, record in control_records(batch):
        if isinstance(record, KRaftVersion | KRaftVoters):
            yield offset, record


def control_records(batch: Buffer) -> Iterator[tuple[Offset, ControlRecord]]:
    """The records of one control batch, with their offsets.

    Errors: those of `decode_control`; INVALID_RECORD when it has fewer or more records than offsets.
    """
    header, records = read_header(batch), decode_control(batch)
    if header.is_group_state:
        return
    if len(records) != header.last_offset_delta + 1:
        problem = f"a control batch of {header.last_offset_delta + 1} offsets holds {len(records)} records"
        raise ProtocolError(problem, ErrorCode.INVALID_RECORD)
    for offset, record in enumerate(records, header.base_offset):
        yield Offset(offset), record


def decode_records(batch: Buffer, *, verify_crc: bool = True) -> list[Record]:
    """The records of one batch, from any writer and with any codec. Errors: those of `iterate_records`."""
    return list(iterate_records(batch, verify_crc=verify_crc))


def iterate_records(
    batch: Buffer, *, verify_crc: bool = True, size_bytes_max: int = DECOMPRESSED_SIZE_BYTES_MAX
) -> Iterator[Record]:
    """One record after the other: a record takes much more memory than its bytes.

    Units: ``size_bytes_max`` bounds the decompressed records.
    Errors: those of `open_batch` (header, CRC, codec, size); INVALID_RECORD when a record is damaged, offsets do not
    ascend within the batch, there are more than HEADERS_MAX headers, or bytes follow the last record.
    """
    yield from iterate_body(*open_batch(batch, verify_crc=verify_crc, size_bytes_max=size_bytes_max))


def iterate_body(header: BatchHeader, body: bytes) -> Iterator[Record]:
    """As `iterate_records`, for the decompressed records of a batch."""
    position = 0
    last_delta = -1
    headers_left = HEADERS_MAX
    for index in range(header.records_count):
        size_bytes, start = read_varint(body, position)
        position = start + size_bytes
        if size_bytes <= 0 or position > len(body):
            raise _bad(index, f"has length {size_bytes}, {len(body) - start} bytes are left")
        delta, record = _Frame(body[start:position], index, headers_max=headers_left).read(header)
        headers_left -= len(record.headers)
        if not last_delta < delta <= header.last_offset_delta:
            raise _bad(index, f"has offset delta {delta} after {last_delta}, the last is {header.last_offset_delta}")
        last_delta = delta
        yield record
    if position != len(body):
        raise ProtocolError(f"{len(body) - position} bytes follow the last record", ErrorCode.INVALID_RECORD)


class _Frame:
    """The bytes of one record after its length, and the read position."""

    def __init__(self, data: bytes, index: int, *, headers_max: int) -> None:
        self._data = data
        self._index = index
        self._headers_max = headers_max
        self._position = 1  # After the attributes.

    def read(self, header: BatchHeader) -> tuple[int, Record]:
        timestamp_delta, self._position = read_varlong(self._data, self._position)
        timestamp_ms = header.max_timestamp if header.is_log_append_time else header.base_timestamp + timestamp_delta
        if not _INT64_MIN <= timestamp_ms <= _INT64_MAX:
            raise _bad(self._index, f"has timestamp delta {timestamp_delta}")
        delta, self._position = read_varint(self._data, self._position)
        record = Record(
            offset=Offset(header.base_offset + delta),
            timestamp_ms=timestamp_ms,
            sequence=-1 if header.base_sequence < 0 else (header.base_sequence + delta) % 2**31,
            key=self._blob("key"),
            value=self._blob("value"),
            headers=self._headers(),
        )
        if self._position != len(self._data):
            raise _bad(self._index, f"has {len(self._data) - self._position} bytes after its headers")
        return delta, record

    def _blob(self, what: str) -> bytes | None:
        size_bytes, start = read_varint(self._data, self._position)
        self._position = start
        if size_bytes == -1:
            return None
        if not 0 <= size_bytes <= len(self._data) - start:
            raise _bad(self._index, f"has a {what} of {size_bytes} bytes, {len(self._data) - start} are left")
        self._position += size_bytes
        return self._data[start : self._position]

    def _headers(self) -> tuple[tuple[str, bytes | None], ...]:
        count, self._position = read_varint(self._data, self._position)
        if not 0 <= count * _HEADER_SIZE_BYTES_MIN <= len(self._data) - self._position:
            raise _bad(self._index, f"has {count} headers, {len(self._data) - self._position} bytes are left")
        # Two bytes of a header become a tuple and an entry, and a codec makes millions of them out of nearly nothing.
        if count > self._headers_max:
            raise _bad(self._index, f"has {count} headers, {self._headers_max} of {HEADERS_MAX} for a batch are left")
        return tuple((self._header_name(), self._blob("header")) for _ in range(count))

    def _header_name(self) -> str:
        name = self._blob("header name")
        if name is None:
            raise _bad(self._index, "has a header without a name")
        try:
            return str(name, "utf-8")
        except UnicodeDecodeError as error:
            raise _bad(self._index, f"has a header whose name is not UTF-8: {error.reason}") from None


def _bad(index: int, problem: str) -> ProtocolError:
    return ProtocolError(f"record {index} of the batch {problem}", ErrorCode.INVALID_RECORD)


def _encoded_length(body: bytes, position: int) -> tuple[int, int]:
    """A length as its shortest encoding has it, and the position after it. Errors: IndexError, ProtocolError."""
    size_bytes, position = read_varint(body, position)
    return (size_bytes << 1) ^ (size_bytes >> 31), position


def end_of_records(data: bytes, position: int, count: int, starts: list[int]) -> int:
    """Append where each of so many records starts; returns where the last one ends by its length, or -1.

    Only lengths are read. The numbers are not checked further, so a caller compares the end with that of the batch.
    """
    append = starts.append
    try:
        for _ in range(count):
            append(position)
            size = data[position]
            position += 1
            if size > 0x7F:
                high = data[position]
                position += 1
                size = size & 0x7F | high << 7
                if high > 0x7F:
                    size, position = read_varint(data, position - 2)
                    if size < 0:
                        return -1
                    position += size
                    continue
            position += size >> 1
    except (IndexError, ProtocolError):
        return -1
    return position


_NULL: Final = 1
"""The length -1 as a zigzag varint."""
_TIME_SIZE_BYTES_MAX: Final = 8
"""A longer time delta might leave int64; a shorter one cannot, added to a time below `_BASE_TIMESTAMP_MAX`."""
_BASE_TIMESTAMP_MAX: Final = 2**62
RECORDS_PER_STEP: Final = 500
"""Records that are checked at a time, in about a millisecond."""


def check_plain(header: BatchHeader, body: bytes, *, is_kraft: bool) -> Generator[None, None, tuple[int, int] | None]:
    """The least and the greatest timestamp of these decompressed records, if they are surely well formed.

    None when the full reader has to decide. ``is_kraft``: also when they are not values only, none of them empty, with
    the time of the batch. Yields after each millisecond or so.
    """
    if header.records_count != header.last_offset_delta + 1 or header.is_log_append_time:
        return None
    if not -_BASE_TIMESTAMP_MAX < header.base_timestamp < _BASE_TIMESTAMP_MAX:
        return None
    plain = _PlainRecords(body, is_kraft=is_kraft)
    count = header.records_count
    try:
        for first in range(0, count, RECORDS_PER_STEP):
            if not plain.goes_on(first, min(first + RECORDS_PER_STEP, count)):
                return None
            yield
    except (IndexError, UnicodeDecodeError, ProtocolError):
        # A length leads out of the batch, or a number is too long.
        return None
    if plain.position != len(body):
        return None
    return header.base_timestamp + plain.least_delta, header.base_timestamp + plain.greatest_delta


class _PlainRecords:
    """A position in records, and the least and the greatest time delta before it."""

    def __init__(self, body: bytes, *, is_kraft: bool) -> None:
        self.position = 0
        self.least_delta = 2**63
        self.greatest_delta = -(2**63)
        self._body = body
        self._is_kraft = is_kraft
        self._headers_left = HEADERS_MAX

    def goes_on(self, first: int, stop: int) -> bool:  # noqa: PLR0912 - one record's fields, in their order
        """Read the records with these indexes; False when one is not plain.

        Errors: IndexError, UnicodeDecodeError, ProtocolError.
        """
        body, position, is_kraft = self._body, self.position, self._is_kraft
        least, greatest = self.least_delta, self.greatest_delta
        for index in range(first, stop):
            # Most numbers take one byte or two: a call for each takes longer than all the rest.
            size_bytes = body[position]
            if size_bytes < 0x80:
                size_bytes, position = size_bytes >> 1 ^ -(size_bytes & 1), position + 1
            else:
                size_bytes, position = read_varint(body, position)
            end = position + size_bytes
            position += 1  # The attributes.
            time = body[position]
            if time < 0x80:
                time, position = time >> 1 ^ -(time & 1), position + 1
            else:
                times = position
                time, position = read_varlong(body, position)
                if position - times > _TIME_SIZE_BYTES_MAX:
                    return False
            if time < least:  # noqa: PLR1730 - a call for each record takes longer
                least = time
            if time > greatest:  # noqa: PLR1730 - as above
                greatest = time
            delta, position = read_varint(body, position)
            # Lengths as they are encoded: an odd one is negative.
            key = body[position]
            if key < 0x80:
                position += 1
            else:
                key, position = _encoded_length(body, position)
            if not key & 1:
                position += key >> 1
            value = body[position]
            if value < 0x80:
                position += 1
            else:
                value, position = _encoded_length(body, position)
            if not value & 1:
                position += value >> 1
            if (key & 1 and key != _NULL) or (value & 1 and value != _NULL):
                return False
            if is_kraft and (time or key != _NULL or value in (0, _NULL)):
                return False
            if body[position] == 0:
                position += 1
            else:
                position = -1 if is_kraft else self._end_of_headers(position)
            # The record ends where its length says.
            if position != end or delta != index:
                return False
        self.position, self.least_delta, self.greatest_delta = position, least, greatest
        return True

    def _end_of_headers(self, position: int) -> int:
        """Where these headers end, or -1."""
        body = self._body
        count, position = read_varint(body, position)
        self._headers_left -= count
        if count < 0 or self._headers_left < 0:
            return -1
        for _ in range(count):
            size_bytes, position = read_varint(body, position)
            if size_bytes < 0:
                return -1
            name = body[position : position + size_bytes]
            if not name.isascii():
                str(name, "utf-8")
            position += size_bytes
            size_bytes, position = read_varint(body, position)
            if size_bytes < -1:
                return -1
            position += max(0, size_bytes)
        return position
