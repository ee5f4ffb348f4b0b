"""Whole batches to Arrow rows, in bulk.

Values come from the protocol's own decoder, one call a batch; the columns that a batch shares by all of its
records are repeated by numpy. A row group never holds more than `ROWS_MAX` rows or `VALUES_SIZE_BYTES_MAX`
of batches, whichever comes first.

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
VALUES_SIZE_BYTES_MAX = 16 * 1024 * 1024
MICROSECONDS_PER_MS = 1_000


@dataclass(slots=True)
class _Rows:
    """Columns of the next row group; those of whole batches with a count for each."""

    counts: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    base_offsets: list[int] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    is_control: list[bool] = field(default_factory=list)
    control_types: list[str | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    has_keys: bool = False

    def add(self, position: int, header: BatchHeader, batch: Buffer) -> None:
        """One batch. Errors: ProtocolError when its records are malformed."""
        count = header.records_count
        types: list[str | None] = [None] * count
        keys: list[bytes | None] = [None] * count
        if header.is_control:
            types = [type(record).__name__ for record in decode_control(batch)]
            records = decode_records(batch)
            keys, values = [record.key for record in records], [record.value for record in records]
            self.has_keys = True
        else:
            try:
                values = list(decode_values(batch))
            except ProtocolError:
                records = decode_records(batch)
                keys, values = [record.key for record in records], [record.value for record in records]
                self.has_keys = True
        self.counts.append(count)
        self.positions.append(position)
        self.sizes.append(header.size_bytes)
        self.base_offsets.append(header.base_offset)
        self.epochs.append(header.epoch)
        self.timestamps.append(header.max_timestamp * MICROSECONDS_PER_MS)
        self.is_control.append(header.is_control)
        self.control_types += types
        self.keys += keys
        self.values += values

    def to_arrow(self, replica: str, segment: str) -> pa.RecordBatch:
        """All rows gathered."""
        counts = np.array(self.counts, dtype=np.int64)
        total = int(counts.sum())
        first_rows = np.concatenate(([0], np.cumsum(counts)[:-1]))
        within = np.arange(total, dtype=np.int64) - np.repeat(first_rows, counts)

        def repeated(values: list[int] | list[bool], dtype: type) -> pa.Array:
            return pa.array(np.repeat(np.array(values, dtype=dtype), counts))

        schema = arrow_schema()
        columns = [
            pa.array([replica], pa.string()).take(pa.array(np.zeros(total, dtype=np.int64))),
            pa.array([segment], pa.string()).take(pa.array(np.zeros(total, dtype=np.int64))),
            repeated(self.positions, np.int64),
            repeated(self.sizes, np.int32),
            pa.array(np.repeat(np.array(self.base_offsets, dtype=np.int64), counts) + within),
            repeated(self.epochs, np.int32),
            repeated(self.timestamps, np.int64).cast(schema.field("timestamp").type),
            repeated(self.is_control, np.bool_),
            pa.array(self.control_types, pa.string()),
            pa.array(self.keys, pa.binary()) if self.has_keys else pa.nulls(total, pa.binary()),
            pa.array(self.values, pa.binary()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def rows_of(piece: Piece, data: bytes) -> Iterator[pa.RecordBatch]:
    """The records of a piece, CRC checked.

    Errors: CorruptionError with file, position and what was found.
    """
    segment = Path(piece.path).name
    view = memoryview(data)
    rows, rows_count, rows_size_bytes = _Rows(), 0, 0
    position = 0
    try:
        for position, header in scan(view):
            if rows_count and (rows_count + header.records_count > ROWS_MAX or rows_size_bytes > VALUES_SIZE_BYTES_MAX):
                yield rows.to_arrow(piece.replica, segment)
                rows, rows_count, rows_size_bytes = _Rows(), 0, 0
            rows.add(piece.position + position, header, view[position : position + header.size_bytes])
            rows_count += header.records_count
            rows_size_bytes += header.size_bytes
    except ProtocolError as error:
        raise CorruptionError(
            piece.path, position=piece.position + position, expected="valid batches", found=str(error)
        ) from error
    if rows_count:
        yield rows.to_arrow(piece.replica, segment)
