"""Columns and checks that rows of records and of batches share: where a row comes from, and damage.

Invariant: a batch that is passed on has the length in its header and a valid CRC.

Source: KIP-98; Kafka ``DefaultRecordBatch.ensureValid``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from pykraft.config import METADATA_TOPIC_NAME
from pykraft.errors import CorruptionError, ProtocolError
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, check_crc, read_header
from pykraft.spark.arrow_columns import array_column, number_column, text_column
from pykraft.spark.data_source.headers.columns import Headers, headers_of
from pykraft.spark.data_source.splits import Split
from pykraft.types import Buffer, Offset

INT32_MAX = 2**31 - 1
COLUMN_MADE = 65_536
"""Rows of a shared column; as many as a row group has, unless one batch has more."""
PARTITION_TEXT = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedBytes:
    """Bytes that are not a batch: where they start in the split, how many, the expected offset, and what is wrong."""

    position: int
    size_bytes: int
    offset: Offset
    text: str

    @classmethod
    def batch(cls, position: int, header: BatchHeader, problem: CorruptionError) -> DamagedBytes:
        """A batch whose header is sound."""
        return cls(position=position, size_bytes=header.size_bytes, offset=header.base_offset, text=str(problem))


def damaged(split: Split, position: int, found: str) -> CorruptionError:
    """The error for a position in the bytes of a split."""
    return CorruptionError(split.path, position=split.position + position, expected="a valid batch", found=found)


def sound_batches(
    split: Split, data: Buffer, *, tolerant: bool, headers: Headers | None = None, are_checked: bool = False
) -> Iterator[Headers | DamagedBytes]:
    """Batches that follow each other in ``data``; all of them are whole, and no byte that a CRC covers changed.

    ``headers`` are those of ``data`` if they are known already. Whoever has compared the CRCs of these bytes in memory
    says ``are_checked``.

    Errors: CorruptionError; when ``tolerant``, `DamagedBytes` is yielded instead.
    """
    found = headers_of(data) if headers is None else headers
    begin = reached = 0
    offset = split.start_offset
    for index in [] if are_checked else np.flatnonzero(~found.have_crcs_of(data)).tolist():
        position, header = found.pair(index)
        problem = damaged(split, position, _wrong_crc(data, position, header))
        if not tolerant:
            raise problem
        if begin < index:
            yield found.at(slice(begin, index))
        yield DamagedBytes.batch(position, header, problem)
        begin = index + 1
    if begin < len(found):
        yield found.at(slice(begin, len(found)))
    if len(found):
        position, header = found.pair(-1)
        reached, offset = position + header.size_bytes, header.end_offset
    if reached == len(data):
        return
    fault = damaged(split, reached, _no_batch(data, reached))
    if not tolerant:
        raise fault
    yield DamagedBytes(position=reached, size_bytes=len(data) - reached, offset=offset, text=str(fault))


def _wrong_crc(data: Buffer, position: int, header: BatchHeader) -> str:
    """What is wrong with a batch that has not the CRC of its bytes."""
    try:
        check_crc(data, position, header)
    except ProtocolError as error:
        return str(error)
    raise AssertionError("two ways to compute a CRC differ")


def _no_batch(data: Buffer, position: int) -> str:
    """What stands in place of a whole batch."""
    if len(data) - position >= HEADER_SIZE_BYTES:
        try:
            read_header(data, position)
        except ProtocolError as error:
            return str(error)
    return f"{len(data) - position} bytes"


def location_columns(split: Split, positions: np.ndarray) -> dict[str, pa.Array]:
    """The columns replica, segment, position, topic and partition of rows in batches at these positions of a file.

    The first three are null for batches from a live quorum.
    """
    count = len(positions)
    topic, partition = _topic_and_partition(split)
    columns = {"topic": constant(topic, count), "partition": constant(partition, count)}
    if split.replica is None:
        nowhere = {"replica": constant(None, count), "segment": constant(None, count)}
        return columns | nowhere | {"position": pa.nulls(count, pa.int64())}
    segment = constant(Path(split.path).name, count)
    return columns | {
        "replica": constant(split.replica, count),
        "segment": segment,
        "position": array_column(positions, pa.int64()),
    }


def constant(value: str | int | None, count: int) -> pa.Array:
    """A column of one value: a text, a 32-bit number, or a null text. Columns of up to `COLUMN_MADE` rows share one."""
    if count > COLUMN_MADE:
        return _constant(value, count)
    return _constant(value, COLUMN_MADE).slice(0, count)


@lru_cache(maxsize=32)
def _constant(value: str | int | None, count: int) -> pa.Array:
    if value is None:
        return pa.nulls(count, pa.string())
    return number_column([value] * count, pa.int32()) if isinstance(value, int) else text_column([value] * count)


def _topic_and_partition(split: Split) -> tuple[str, int]:
    """As the name of the partition directory says."""
    if split.replica is None:
        return METADATA_TOPIC_NAME, 0
    name = Path(split.path).parent.name
    topic, _, partition = name.rpartition("-")
    return (topic, int(partition)) if topic and PARTITION_TEXT.fullmatch(partition) else (name, 0)


def damage_row(split: Split, damage: DamagedBytes, schema: pa.Schema) -> pa.RecordBatch:
    """One row of these columns that reports damage and is null otherwise."""
    position = np.array([split.position + damage.position], dtype=np.int64)
    known = location_columns(split, position)
    known["batch_size"] = number_column([min(damage.size_bytes, INT32_MAX)], pa.int32())
    known["offset"] = known["base_offset"] = number_column([damage.offset], pa.int64())
    known["corrupt"] = text_column([damage.text])
    return pa.RecordBatch.from_arrays(
        [known.get(field.name, pa.nulls(1, field.type)) for field in schema], schema=schema
    )
