"""The record batch, version 2: a 61-byte header, then records. This module knows the header and the CRC.

Layout (big-endian; KRaft's own value where it is always the same):

| offset | size | field | KRaft |
|---|---|---|---|
| 0 | 8 | base offset | |
| 8 | 4 | batch length: bytes after this field | |
| 12 | 4 | partition leader epoch | the leader's epoch |
| 16 | 1 | magic | 2 |
| 17 | 4 | CRC-32C of bytes 21 to the end | |
| 21 | 2 | attributes: bits 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon | 0 or 0x20 |
| 23 | 4 | last offset delta | records count - 1 |
| 27 | 8 | base timestamp, or the delete horizon | time of the append |
| 35 | 8 | max timestamp | = base timestamp |
| 43 | 8 | producer id | -1 |
| 51 | 2 | producer epoch | -1 |
| 53 | 4 | base sequence | -1 |
| 57 | 4 | records count | |
| 61 | | records, compressed as one stream | not compressed |

Bits 8 to 11 are pykraft's own, which no Kafka reads: a control batch with bit 8 has the state of consumer groups, and
none of Raft's records. With bit 9 it is a part of a whole image of that state, which begins with bit 10 and ends with
bit 11.

The CRC does not cover base offset, length, epoch and magic, so that a leader can set them without changing the rest.
Only the checks here, and those of offsets and epochs in the log, protect these four fields.

A log of small batches has millions of headers, and most are as KRaft writes them: no codec, one epoch, offsets without
a gap. A `BatchRun` has their fields as columns, and each check compares a whole column at once, without an object for
each. Invariant: every batch of a run passes `read_header` and `check_crc`, and begins with the offset after the
previous one; if a run has several, all hold records of the application. Whatever differs is read batch by batch.

Source: KIP-98 §Message Format; Kafka's ``DefaultRecordBatch``, ``FileLogInputStream``; the runs are ours.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise, repeat
from operator import add, le, mul, sub
from typing import Any, Final, NamedTuple, Self

from crc32c import crc32c

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.compression import DECOMPRESSED_SIZE_BYTES_MAX, Compression, decompress
from pykraft.text.words import counted
from pykraft.types import Buffer, Epoch, Offset
from pykraft.value import value

HEADER_SIZE_BYTES: Final = 61
MAGIC: Final = 2
RECORD_SIZE_BYTES_MIN: Final = 7
"""A record without key, value and headers: seven fields of one byte each."""
ROOM_FOR_HEADER: Final = bytes(HEADER_SIZE_BYTES)
"""What a batch begins with until `seal_in_place`."""

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_BEFORE_CRC: Final = struct.Struct(">qiibI")
_AFTER_CRC: Final = struct.Struct(">hiqqqhii")
_CRC: Final = struct.Struct(">I")
_CRC_POSITION: Final = 17
_MAX_TIMESTAMP: Final = struct.Struct(">q")
_MAX_TIMESTAMP_POSITION: Final = 35
_PRODUCER: Final = struct.Struct(">qhi")
_PRODUCER_POSITION: Final = 43
_CRC_START: Final = 21
_LENGTH_END: Final = 12
_OFFSET_MAX: Final = 2**63 - 1

_COMPRESSION_MASK: Final = 0x07
_LOG_APPEND_TIME_BIT: Final = 0x08
_TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
_ATTRIBUTES_AT: Final = 22
"""Where the lower byte of the attributes is."""
_DELETE_HORIZON_BIT: Final = 0x40
GROUP_STATE_BITS: Final = CONTROL_BIT | 0x100
IMAGE_BIT: Final = 0x200
IMAGE_BEGIN_BIT: Final = 0x400
IMAGE_END_BIT: Final = 0x800

assert _HEADER.size == HEADER_SIZE_BYTES == _BEFORE_CRC.size + _AFTER_CRC.size


@value(frozen=True, slots=True)
class BatchHeader:
    """The header of one batch, in the order of its bytes.

    Units: ``size_bytes`` is the whole batch, header included; timestamps are wall ms; ``crc`` is the value in the
    header.
    """

    base_offset: Offset
    size_bytes: int
    epoch: Epoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def batch_length(self) -> int:
        """The length field: the number of bytes after it."""
        return self.size_bytes - _LENGTH_END

    @property
    def last_offset(self) -> Offset:
        """Offset of the last record, inclusive."""
        return Offset(self.base_offset + self.last_offset_delta)

    @property
    def end_offset(self) -> Offset:
        """Offset after the last record."""
        return Offset(self.base_offset + self.last_offset_delta + 1)

    @property
    def is_control(self) -> bool:
        """True when the records are Raft's own (or end a transaction), not the application's."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_group_state(self) -> bool:
        """True when a control batch has the state of consumer groups, and nothing of Raft's."""
        return self.attributes & GROUP_STATE_BITS == GROUP_STATE_BITS

    @property
    def is_transactional(self) -> bool:
        """True when the batch belongs to a producer's transaction; never in KRaft."""
        return bool(self.attributes & _TRANSACTIONAL_BIT)

    @property
    def is_log_append_time(self) -> bool:
        """True when every record has the time ``max_timestamp``, which a broker set at the append."""
        return bool(self.attributes & _LOG_APPEND_TIME_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time from which a cleaner may drop tombstones (KIP-534); it is in ``base_timestamp`` then."""
        return self.base_timestamp if self.attributes & _DELETE_HORIZON_BIT else None

    @property
    def compression(self) -> Compression:
        """Codec of the records; ValueError for an unknown one, which a header from `read_header` never has."""
        return Compression(self.attributes & _COMPRESSION_MASK)


class EncodedBatch(NamedTuple):
    """A batch that we just encoded: its header, so that nobody parses the bytes again, and its bytes."""

    header: BatchHeader
    data: bytes


def unpack_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at this position, with only the checks that are needed to find the next batch.

    For tools that show damaged files; all other code uses `read_header`.

    Errors: CORRUPT_MESSAGE when the header is cut, its length is less than a header's, or its magic is not 2.
    """
    if len(buffer) - position < HEADER_SIZE_BYTES:
        found = f"{len(buffer) - position} of {HEADER_SIZE_BYTES} bytes"
        raise ProtocolError(f"the batch header at byte {position} is cut off: {found}", ErrorCode.CORRUPT_MESSAGE)
    base_offset, batch_length, *rest = _HEADER.unpack_from(buffer, position)
    header = BatchHeader(base_offset, batch_length + _LENGTH_END, *rest)
    if header.size_bytes < HEADER_SIZE_BYTES:
        raise ProtocolError(
            f"the batch at byte {position} says that {batch_length} bytes follow its length, but its header alone has "
            f"{HEADER_SIZE_BYTES - _LENGTH_END}",
            ErrorCode.CORRUPT_MESSAGE,
        )
    if header.magic != MAGIC:
        raise ProtocolError(
            f"the batch at byte {position} has magic {header.magic}; only {MAGIC} is read", ErrorCode.CORRUPT_MESSAGE
        )
    return header


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at this position, checked for consistency. This checks neither the CRC nor that all records are there.

    Errors: as `unpack_header`; INVALID_RECORD when offsets, epoch, codec or count contradict each other or the length.
    """
    header = unpack_header(buffer, position)
    check_header(header, position)
    return header


def check_header(header: BatchHeader, position: int = 0) -> None:
    """The checks of `read_header` for a header that `unpack_header` gave. Errors: INVALID_RECORD."""
    problem = _contradiction(header)
    if problem is not None:
        raise ProtocolError(f"the batch at byte {position} {problem}", ErrorCode.INVALID_RECORD)


def _contradiction(header: BatchHeader) -> str | None:
    delta, count = header.last_offset_delta, header.records_count
    if header.base_offset < 0 or delta < 0 or header.base_offset > _OFFSET_MAX - delta:
        return f"has the offsets {header.base_offset} to {header.base_offset + delta}, which no batch can have"
    if header.epoch < -1:
        return f"has epoch {header.epoch}, and no epoch is below 0"
    if header.attributes & _COMPRESSION_MASK > Compression.ZSTD:
        return f"has codec {header.attributes & _COMPRESSION_MASK}, which does not exist"
    if not 0 <= count <= delta + 1:
        offsets = f"offsets {header.base_offset} to {header.base_offset + delta}"
        return f"claims {counted(count, 'record')} for the {offsets}"
    room_bytes = header.size_bytes - HEADER_SIZE_BYTES
    if not header.attributes & _COMPRESSION_MASK and count * RECORD_SIZE_BYTES_MIN > room_bytes:
        return f"claims {counted(count, 'record')} in {room_bytes} bytes; one takes at least {RECORD_SIZE_BYTES_MIN}"
    return None


def crc_of(buffer: Buffer, position: int, header: BatchHeader) -> int:
    """The computed CRC-32C of the batch at this position; the buffer must contain the whole batch."""
    end = position + header.size_bytes
    assert end <= len(buffer), "a CRC is only taken of a whole batch"
    with memoryview(buffer) as view:
        return crc32c(view[position + _CRC_START : end])


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Refuse a batch whose bytes do not match its CRC. Errors: CORRUPT_MESSAGE, also when the batch is cut off."""
    missing = position + header.size_bytes - len(buffer)
    if missing > 0:
        raise ProtocolError(
            f"the batch at byte {position} is cut off: {missing} of {header.size_bytes} bytes are missing",
            ErrorCode.CORRUPT_MESSAGE,
        )
    crc = crc_of(buffer, position, header)
    if crc != header.crc:
        raise ProtocolError(
            f"the batch at byte {position} (offset {header.base_offset}, {header.size_bytes} bytes) "
            f"has CRC {crc:08x}, expected {header.crc:08x}",
            ErrorCode.CORRUPT_MESSAGE,
        )


def without_control(buffers: Sequence[Buffer]) -> tuple[list[Buffer], Offset]:
    """The whole batches of these buffers that are no control batches, as views, and where the last batch of all ends.

    The buffers hold whole batches that were checked before, at least one.
    """
    kept: list[Buffer] = []
    last: Buffer = b""
    at = 0
    for buffer in buffers:
        view, start, position, end = memoryview(buffer), 0, 0, len(buffer)
        while position < end:
            at, next_position = position, position + _INT32(buffer, position + _LENGTH_AT)[0] + _LENGTH_END
            if view[position + _ATTRIBUTES_AT] & CONTROL_BIT:
                if position > start:
                    kept.append(view[start:position])
                start = next_position
            position = next_position
        if start < end:
            kept.append(view[start:] if start else buffer)
        last = buffer
    return kept, read_header(last, at).end_offset


def scan(buffer: Buffer, *, verify_crc: bool = True) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch, front to back.

    Offsets and epochs of different batches are not compared; the log does that.

    Errors: those of `read_header` and `check_crc`, at the first bad batch, after the good ones before it were yielded.
    """
    position = 0
    while len(buffer) - position >= HEADER_SIZE_BYTES:
        header = read_header(buffer, position)
        # A Fetch answer may end within a batch; the caller sees that by the end of the last batch it got.
        if header.size_bytes > len(buffer) - position:
            return
        if verify_crc:
            check_crc(buffer, position, header)
        yield position, header
        position += header.size_bytes


def open_batch(
    batch: Buffer, *, verify_crc: bool = True, size_bytes_max: int = DECOMPRESSED_SIZE_BYTES_MAX
) -> tuple[BatchHeader, bytes]:
    """Header and decompressed records of exactly one batch.

    Errors: as `read_header`, `check_crc` and `decompress`; INVALID_RECORD when bytes follow the batch or the records
    have too few bytes for their count.
    """
    header = read_header(batch)
    if verify_crc:
        check_crc(batch, 0, header)
    if len(batch) != header.size_bytes:
        raise ProtocolError(f"the batch takes {header.size_bytes} bytes, found {len(batch)}", ErrorCode.INVALID_RECORD)
    with memoryview(batch) as view:
        packed = view[HEADER_SIZE_BYTES:]
        return header, unpack(header.compression, packed, header.records_count, size_bytes_max=size_bytes_max)


def unpack(
    compression: Compression, data: Buffer, count: int, *, size_bytes_max: int = DECOMPRESSED_SIZE_BYTES_MAX
) -> bytes:
    """So many records, decompressed. Errors: as `decompress`; INVALID_RECORD when they have too few bytes for that."""
    body = bytes(decompress(compression, data, size_bytes_max=size_bytes_max))
    if count * RECORD_SIZE_BYTES_MIN > len(body):
        raise ProtocolError(
            f"the batch claims {counted(count, 'record')} in {len(body)} bytes; "
            f"one takes at least {RECORD_SIZE_BYTES_MIN}",
            ErrorCode.INVALID_RECORD,
        )
    return body


def seal_batch(
    body: bytes, *, count: int, base_offset: Offset, epoch: Epoch, timestamp_ms: int, attributes: int = 0
) -> EncodedBatch:
    """Put KRaft's header with its CRC before these records: uncompressed, no producer, one timestamp for all."""
    batch = bytearray().join((ROOM_FOR_HEADER, body))
    header = seal_in_place(
        batch, count=count, base_offset=base_offset, epoch=epoch, timestamp_ms=timestamp_ms, attributes=attributes
    )
    return EncodedBatch(header, bytes(batch))


def seal_in_place(
    batch: bytearray, *, count: int, base_offset: Offset, epoch: Epoch, timestamp_ms: int, attributes: int = 0
) -> BatchHeader:
    """Write the header of `seal_batch` into the room that the batch begins with; returns it."""
    assert count > 0, "KRaft writes no empty batches"
    after_crc = (attributes, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)
    _AFTER_CRC.pack_into(batch, _CRC_START, *after_crc)
    with memoryview(batch) as view:
        crc = crc32c(view[_CRC_START:])
    header = BatchHeader(base_offset, len(batch), epoch, MAGIC, crc, *after_crc)
    _BEFORE_CRC.pack_into(batch, 0, base_offset, header.batch_length, epoch, MAGIC, crc)
    return header


def number_batch(batch: bytearray, *, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Make a whole batch that of an idempotent producer, in place; nothing else of it changes but the CRC.

    Units: ``base_sequence`` is the number of its first record, int32 >= 0.
    """
    _PRODUCER.pack_into(batch, _PRODUCER_POSITION, producer_id, producer_epoch, base_sequence)
    with memoryview(batch) as view:
        _CRC.pack_into(batch, _CRC_POSITION, crc32c(view[_CRC_START:]))


def with_max_timestamp(data: Buffer, timestamp_ms: int) -> EncodedBatch:
    """A copy of a whole batch with another greatest timestamp in its header, and the CRC that follows from it."""
    batch = bytearray(data)
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_POSITION, timestamp_ms)
    with memoryview(batch) as view:
        crc = crc32c(view[_CRC_START:])
    _CRC.pack_into(batch, _CRC_POSITION, crc)
    return EncodedBatch(read_header(batch), bytes(batch))


def place_batch(header: BatchHeader, data: Buffer, *, base_offset: Offset, epoch: Epoch) -> EncodedBatch:
    """Give a whole batch its place in the log: base offset and leader epoch, neither of which its CRC covers."""
    placed = replace(header, base_offset=base_offset, epoch=epoch)
    start = _BEFORE_CRC.pack(base_offset, placed.batch_length, epoch, MAGIC, placed.crc)
    with memoryview(data) as view:
        return EncodedBatch(placed, b"".join((start, view[_CRC_START:])))


BATCHES_MIN: Final = 4
"""Fewer batches are read one by one just as fast."""
BATCHES_MAX: Final = 1_024
"""Limits the memory for the columns of one run."""

GROUP_BATCHES: Final = 128
"""Headers that one call unpacks where all batches have one size."""

_LAYOUT: Final = "q4x5sIhi8xq14xi"
_COLUMNS: Final = struct.Struct(f">{_LAYOUT}").unpack_from
_COLUMNS_COUNT: Final = 7
"""Base offset; epoch and magic together; CRC, attributes, last offset delta, max timestamp, count."""
_INT32: Final = struct.Struct(">i").unpack_from
_LENGTH_AT: Final = 8
_LENGTH_MIN: Final = HEADER_SIZE_BYTES - _LENGTH_END


class BatchRun:
    """Sound batches that follow each other, of one epoch.

    ``positions`` are where they begin in the file or the answer, and where the last one ends: one more than there are
    batches. ``last_offsets`` are inclusive; ``max_timestamps`` are wall ms.
    """

    __slots__ = ("_buffer", "_shift", "base_offset", "epoch", "last_offsets", "max_timestamps", "positions")

    def __init__(
        self,
        buffer: Buffer,
        shift: int,
        *,
        positions: Sequence[int],
        base_offset: Offset,
        epoch: Epoch,
        last_offsets: Sequence[int],
        max_timestamps: Sequence[int],
    ) -> None:
        """``shift`` is the position of the buffer in the file."""
        self.positions = positions
        self.base_offset = base_offset
        self.epoch = epoch
        self.last_offsets = last_offsets
        self.max_timestamps = max_timestamps
        self._buffer = buffer
        self._shift = shift

    @classmethod
    def of_one(cls, buffer: Buffer, position: int, header: BatchHeader) -> Self:
        """One batch of any kind, which begins at this position of the buffer."""
        return cls(
            buffer,
            0,
            positions=(position, position + header.size_bytes),
            base_offset=header.base_offset,
            epoch=header.epoch,
            last_offsets=(header.last_offset,),
            max_timestamps=(header.max_timestamp,),
        )

    def __len__(self) -> int:
        return len(self.last_offsets)

    def part(self, begin: int, end: int) -> Self:
        """Some of the batches, by number; at least one."""
        return type(self)(
            self._buffer,
            self._shift,
            positions=self.positions[begin : end + 1],
            base_offset=Offset(self.last_offsets[begin - 1] + 1) if begin else self.base_offset,
            epoch=self.epoch,
            last_offsets=self.last_offsets[begin:end],
            max_timestamps=self.max_timestamps[begin:end],
        )

    @property
    def data(self) -> memoryview:
        """The bytes of all batches."""
        return memoryview(self._buffer)[self.positions[0] - self._shift : self.end - self._shift]

    @property
    def size_bytes(self) -> int:
        """Of all batches."""
        return self.end - self.positions[0]

    @property
    def end(self) -> int:
        """Position after the last batch."""
        return self.positions[-1]

    @property
    def end_offset(self) -> Offset:
        """Offset after the last batch."""
        return Offset(self.last_offsets[-1] + 1)

    def headers(self) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch."""
        for position in self.positions[:-1]:
            yield position, read_header(self._buffer, position - self._shift)

    def contents(self) -> Iterator[memoryview]:
        """The bytes of each batch, header included."""
        view = memoryview(self._buffer)
        for start, end in pairwise(self.positions):
            yield view[start - self._shift : end - self._shift]


def batch_starts(buffer: Buffer, at: int) -> Sequence[int]:
    """Where the whole batches from ``at`` on begin, by their lengths alone, and where the last one ends.

    Only ``at`` when there is no whole batch.
    """
    end = len(buffer)
    if end - at < HEADER_SIZE_BYTES:
        return [at]
    stride: int = _INT32(buffer, at + _LENGTH_AT)[0] + _LENGTH_END
    if stride >= HEADER_SIZE_BYTES and _is_uniform(buffer, at, stride, count := min(BATCHES_MAX, (end - at) // stride)):
        return range(at, at + count * stride + 1, stride)
    starts = [at]
    while len(starts) <= BATCHES_MAX and end - at >= HEADER_SIZE_BYTES:
        length: int = _INT32(buffer, at + _LENGTH_AT)[0]
        at += _LENGTH_END + length
        if length < _LENGTH_MIN or at > end:
            break
        starts.append(at)
    return starts


def _is_uniform(buffer: Buffer, at: int, stride: int, count: int) -> bool:
    """True when as many batches of one size follow each other."""
    at += _LENGTH_AT
    end = at + (count - 1) * stride + 1
    # The first bytes of all lengths are equal, the second bytes, and so on.
    return count > 0 and all(
        buffer[at + part : end + part : stride] == bytes(buffer[at + part : at + part + 1]) * count for part in range(4)
    )


def _columns(buffer: Buffer, starts: Sequence[int]) -> list[list[Any]]:
    columns: list[list[Any]] = [[] for _ in range(_COLUMNS_COUNT)]
    at = 0
    while isinstance(starts, range) and len(starts) - 1 - at >= GROUP_BATCHES:
        fields = _group(starts.step, GROUP_BATCHES)(buffer, starts[at])
        for number, column in enumerate(columns):
            column.extend(fields[number::_COLUMNS_COUNT])
        at += GROUP_BATCHES
    if at < len(starts) - 1:
        rest = zip(*map(_COLUMNS, repeat(buffer), starts[at:-1]), strict=True)
        for column, field in zip(columns, rest, strict=True):
            column.extend(field)
    return columns


@lru_cache(maxsize=8)
def _group(stride: int, count: int) -> Callable[[Buffer, int], tuple[Any, ...]]:
    """Reads the fields of ``count`` headers that are this far apart, one header's after the other's."""
    several = struct.Struct(f">{(_LAYOUT + f'{stride - HEADER_SIZE_BYTES}x') * (count - 1)}{_LAYOUT}")
    return several.unpack_from


def batch_run(buffer: Buffer, starts: Sequence[int], *, shift: int) -> BatchRun | None:
    """The batches that begin at these places of the buffer, if they are a run. ``shift``: where the buffer begins."""
    base_offsets, marks, crcs, attributes, deltas, max_timestamps, counts = _columns(buffer, starts)
    last_offsets = [*map(add, base_offsets, deltas)]
    checked = map(add, starts[:-1], repeat(_CRC_START))
    epoch: int = _INT32(marks[0])[0]
    is_plain = (
        # No codec, no control batch, no transaction.
        not any(attributes)
        # One epoch, and the right magic in each batch.
        and marks[0][-1] == MAGIC
        and marks.count(marks[0]) == len(marks)
        and epoch >= 0
        # Each offset has its record, and each batch the offset after the previous one's.
        and min(deltas) >= 0
        and {*map(sub, counts, deltas)} == {1}
        and base_offsets[0] >= 0
        and last_offsets[-1] <= _OFFSET_MAX
        and {*map(sub, base_offsets[1:], last_offsets)} <= {1}
        # No batch has more records than bytes for them.
        and _have_room(starts, counts)
    )
    if not is_plain:
        return None
    with memoryview(buffer) as view:
        # This takes half of the time of a whole run.
        if crcs != [crc32c(view[begin:end]) for begin, end in zip(checked, starts[1:], strict=True)]:
            return None
    return BatchRun(
        buffer,
        shift,
        positions=[*map(add, starts, repeat(shift))] if shift else starts,
        base_offset=Offset(base_offsets[0]),
        epoch=Epoch(epoch),
        last_offsets=last_offsets,
        max_timestamps=max_timestamps,
    )


def _have_room(starts: Sequence[int], counts: Sequence[int]) -> bool:
    if isinstance(starts, range):
        return max(counts) * RECORD_SIZE_BYTES_MIN <= starts.step - HEADER_SIZE_BYTES
    bodies = map(add, starts, repeat(HEADER_SIZE_BYTES))
    return all(map(le, map(mul, counts, repeat(RECORD_SIZE_BYTES_MIN)), map(sub, starts[1:], bodies)))


def runs_of(buffer: Buffer) -> Iterator[BatchRun]:
    """The batches that `scan` finds, their CRCs compared: many plain ones as one run, any other alone.

    Errors: as `scan`.
    """
    position = no_run_until = 0
    while len(buffer) - position >= HEADER_SIZE_BYTES:
        if position >= no_run_until:
            starts = batch_starts(buffer, position)
            # What is no run is read batch by batch, which also finds out what is wrong, if anything is.
            no_run_until = starts[-1]
            if len(starts) > BATCHES_MIN and (run := batch_run(buffer, starts, shift=0)) is not None:
                yield run
                position = run.end
                continue
        header = read_header(buffer, position)
        if header.size_bytes > len(buffer) - position:
            return
        check_crc(buffer, position, header)
        yield BatchRun.of_one(buffer, position, header)
        position += header.size_bytes
