"""Whole batches to Arrow rows, in bulk.

Values come from the protocol's own decoder, one call a batch; the columns that a batch shares by all of its
records are repeated by numpy. A row group never holds more than `ROWS_MAX` rows or `BATCHES_SIZE_BYTES_MAX`
of batches, whichever comes first, unless a single batch does. Batches of other clients than KRaft are read record by
record: theirs may have offsets with gaps, times of their own and keys.

Source: KIP-98; Kafka ``DefaultRecordBatch``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from pykraft.errors import CorruptionError, ProtocolError
from pykraft.protocol.batch import BatchHeader, scan
from pykraft.protocol.records import decode_control, decode_records, decode_values
from pykraft.spark.files import Piece
from pykraft.spark.schema import arrow_schema
from pykraft.types import Buffer

ROWS_MAX = 65_536
BATCHES_SIZE_BYTES_MAX = 16 * 1024 * 1024
MICROSECONDS_PER_MS = 1_000


@dataclass(slots=True)
class _Rows:
    """The next row group. Lists with an entry for each batch, and behind ``control_types`` for each record."""

    counts: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    are_control: list[bool] = field(default_factory=list)
    offsets: list[np.ndarray] = field(default_factory=list)
    timestamps: list[np.ndarray] = field(default_factory=list)
    control_types: list[str | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    rows_count: int = 0
    size_bytes: int = 0

    def has_room_for(self, header: BatchHeader) -> bool:
        """True when this batch may be added; the first always may."""
        rows_count = self.rows_count + header.records_count
        size_bytes = self.size_bytes + header.size_bytes
        return self.rows_count == 0 or (rows_count <= ROWS_MAX and size_bytes <= BATCHES_SIZE_BYTES_MAX)

    def add(self, position: int, header: BatchHeader, batch: Buffer) -> None:
        """One batch. Errors: ProtocolError when its records are malformed."""
        values = None if header.is_control else _values_of_kraft(batch)
        if values is not None:
            count = len(values)
            self.offsets.append(np.arange(header.base_offset, header.base_offset + count, dtype=np.int64))
            self.timestamps.append(np.full(count, header.max_timestamp, dtype=np.int64))
            self.keys += [None] * count
            self.values += values
        else:
            records = decode_records(batch)
            count = len(records)
            self.offsets.append(np.array([record.offset for record in records], dtype=np.int64))
            self.timestamps.append(np.array([record.timestamp_ms for record in records], dtype=np.int64))
            self.keys += [record.key for record in records]
            self.values += [record.value for record in records]
        if header.is_control:
            self.control_types += [type(record).__name__ for record in decode_control(batch)]
        else:
            self.control_types += [None] * count
        self.counts.append(count)
        self.positions.append(position)
        self.sizes.append(header.size_bytes)
        self.epochs.append(header.epoch)
        self.are_control.append(header.is_control)
        self.rows_count += count
        self.size_bytes += header.size_bytes

    def to_arrow(self, replica: str, segment: str) -> pa.RecordBatch:
        """All rows gathered."""
        total = self.rows_count
        timestamps = np.concatenate(self.timestamps) * MICROSECONDS_PER_MS

        def repeated(values: list[int] | list[bool], dtype: type) -> pa.Array:
            return pa.array(np.repeat(np.array(values, dtype=dtype), self.counts))

        schema = arrow_schema()
        columns = [
            pa.repeat(replica, total),
            pa.repeat(segment, total),
            repeated(self.positions, np.int64),
            repeated(self.sizes, np.int32),
            pa.array(np.concatenate(self.offsets)),
            repeated(self.epochs, np.int32),
            pa.array(timestamps).cast(schema.field("timestamp").type),
            repeated(self.are_control, np.bool_),
            pa.array(self.control_types, pa.string()),
            pa.array(self.keys, pa.binary()),
            pa.array(self.values, pa.binary()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _values_of_kraft(batch: Buffer) -> list[bytes] | None:
    """The values of a batch as KRaft writes it; None for another client's, or one that is damaged."""
    try:
        return decode_values(batch)
    except ProtocolError:
        return None


def rows_of(piece: Piece, data: bytes) -> Iterator[pa.RecordBatch]:
    """The records of a piece, CRC checked.

    Errors: CorruptionError with file, position and what was found.
    """
    segment = Path(piece.path).name
    view = memoryview(data)
    rows = _Rows()
    reached = 0
    try:
        for position, header in scan(view, verify_crc=False):
            if not rows.has_room_for(header):
                yield rows.to_arrow(piece.replica, segment)
                rows = _Rows()
            rows.add(piece.position + position, header, view[position : position + header.size_bytes])
            reached = position + header.size_bytes
    except ProtocolError as error:
        raise CorruptionError(
            piece.path, position=piece.position + reached, expected="a valid batch", found=str(error)
        ) from error
    if rows.rows_count:
        yield rows.to_arrow(piece.replica, segment)
