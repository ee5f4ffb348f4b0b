"""Columns and checks that rows of records and of batches share: where a row comes from, and damage.

Invariant: a batch that is passed on has the length in its header and a valid CRC.

Source: KIP-98; Kafka ``DefaultRecordBatch.ensureValid``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from pykraft.errors import CorruptionError, ProtocolError
from pykraft.protocol.batch import BatchHeader, check_crc, scan
from pykraft.spark.data_source.schema import arrow_schema
from pykraft.spark.data_source.splits import Batches, Split
from pykraft.types import Offset

INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedBytes:
    """Bytes that are not a batch: where they start in the split, how many, the expected offset, and what is wrong."""

    position: int
    size_bytes: int
    offset: Offset
    text: str


def damaged(split: Split, position: int, found: str) -> CorruptionError:
    """The error for a position in the bytes of a split."""
    return CorruptionError(split.path, position=split.position + position, expected="a valid batch", found=found)


def sound_batches(
    split: Split, data: bytes, *, tolerant: bool, batches: Batches | None = None
) -> Iterator[tuple[int, BatchHeader] | DamagedBytes]:
    """Position in ``data`` and header of each batch; all of them are whole, and no byte that a CRC covers changed.

    ``batches`` are the headers of all of ``data`` if they are known already.

    Errors: CorruptionError; when ``tolerant``, `DamagedBytes` is yielded instead.
    """
    reached, offset = 0, split.start_offset
    try:
        for position, header in scan(data, verify_crc=False) if batches is None else batches:
            problem = _crc_problem(data, position, header)
            if problem and not tolerant:
                raise damaged(split, position, problem)
            yield (
                DamagedBytes(
                    position=position,
                    size_bytes=header.size_bytes,
                    offset=header.base_offset,
                    text=str(damaged(split, position, problem)),
                )
                if problem
                else (position, header)
            )
            reached, offset = position + header.size_bytes, header.end_offset
        rest = f"{len(data) - reached} bytes"
    except ProtocolError as error:
        rest = str(error)
    if reached == len(data):
        return
    fault = damaged(split, reached, rest)
    if not tolerant:
        raise fault
    yield DamagedBytes(position=reached, size_bytes=len(data) - reached, offset=offset, text=str(fault))


def _crc_problem(data: bytes, position: int, header: BatchHeader) -> str | None:
    try:
        check_crc(data, position, header)
    except ProtocolError as error:
        return str(error)
    return None


def location_columns(split: Split, positions: np.ndarray) -> list[pa.Array]:
    """The columns replica, segment and position; null for batches from a live quorum."""
    count = len(positions)
    if split.replica is None:
        return [pa.nulls(count, pa.string()), pa.nulls(count, pa.string()), pa.nulls(count, pa.int64())]
    return [pa.repeat(split.replica, count), pa.repeat(Path(split.path).name, count), pa.array(positions)]


def damage_row(split: Split, damage: DamagedBytes, rows: str) -> pa.RecordBatch:
    """One row of ``records`` or ``batches`` that reports damage and is null otherwise."""
    schema = arrow_schema(rows)
    position = np.array([split.position + damage.position], dtype=np.int64)
    known = dict(zip(("replica", "segment", "position"), location_columns(split, position), strict=True))
    known["batch_size"] = pa.array([min(damage.size_bytes, INT32_MAX)], pa.int32())
    known["offset" if rows == "records" else "base_offset"] = pa.array([damage.offset], pa.int64())
    known["corrupt"] = pa.array([damage.text])
    return pa.RecordBatch.from_arrays(
        [known.get(field.name, pa.nulls(1, field.type)) for field in schema], schema=schema
    )
