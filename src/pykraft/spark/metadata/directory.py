"""Reads metadata records from a replica's directory: the newest snapshot that a moment allows, then the log.

Invariant: the records describe the cluster completely, or there is an error. The log is read as the Spark source reads
it: each CRC is checked, and it ends where a start of the node would end it. Memory holds one chunk of the log, or one
batch of a snapshot. A directory may hold records at its end that were never committed.

Source: KIP-630, KIP-631.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pykraft.config import METADATA_TOPIC_NAME
from pykraft.errors import CorruptionError, ProtocolError, UsageError
from pykraft.object_storage.files import Files
from pykraft.protocol.batch import BatchHeader
from pykraft.protocol.records import Record, decode_records
from pykraft.spark.data_source.file_plan import end_of, plan_batch
from pykraft.spark.data_source.files import find_replicas
from pykraft.spark.data_source.headers.scanned import ScannedHeaders
from pykraft.spark.data_source.options import parse_options
from pykraft.spark.data_source.splits import SplitChunk, judged, read_chunks
from pykraft.spark.data_source.walk import ReplicaLog
from pykraft.spark.metadata.logged import LoggedRecord, logged_record
from pykraft.spark.metadata.moment import Moment
from pykraft.spark.metadata.snapshots import newest_within, oldest_from, snapshot_records
from pykraft.types import Offset


def furthest(directories: Sequence[Path]) -> Path:
    """The partition directory whose log reaches furthest; each is one, or a node's directory that has one.

    Errors: UsageError if one has no log; StorageError.
    """
    inner = [each / f"{METADATA_TOPIC_NAME}-0" for each in directories]
    fs = Files()
    found = [str(inside if fs.is_folder(inside) else each) for each, inside in zip(directories, inner, strict=True)]
    return max(find_replicas(found), key=end_of).directory


def records_until(directory: Path, moment: Moment, *, is_history: bool = False) -> Iterator[LoggedRecord]:
    """The records that describe the cluster at a moment; for a history, from as early a snapshot or log as there is.

    Errors: UsageError if the directory does not reach back, or not up, to that moment; ProtocolError for a record that
    this version cannot decode; CorruptionError; StorageError.
    """
    (replica,) = find_replicas([str(directory)])
    log_start = replica.start().offset
    snapshot_id = (
        oldest_from(replica.fs, directory, log_start) if is_history else newest_within(replica.fs, directory, moment)
    )
    start = Offset(0) if snapshot_id is None else snapshot_id.offset
    if log_start > start:
        raise UsageError(
            f"{directory}: the log begins at offset {log_start}, and no snapshot is old enough for this moment"
        )
    if moment.end_offset is not None and moment.end_offset > max(end_of(replica), start):
        raise UsageError(f"{directory}: the log ends at offset {end_of(replica)}, before offset {moment.end_offset}")
    if snapshot_id is not None:
        yield from snapshot_records(replica.fs, directory, snapshot_id)
    yield from log_records(replica, start, moment)


def log_records(replica: ReplicaLog, start: Offset, moment: Moment) -> Iterator[LoggedRecord]:
    """The data records of the log, from an offset up to a moment. Errors: as `records_until`."""
    if start >= end_of(replica):
        return
    options = parse_options({"path": str(replica.directory), "startingOffsets": str(start)})
    for split in plan_batch(replica, options).splits:
        for chunk in read_chunks(split):
            for position, header in chunk.headers.pairs():
                for record in _records(chunk, position, header):
                    if record.offset < start:  # within the first batch
                        continue
                    if not moment.includes(record.offset, record.timestamp_ms):
                        return
                    if not header.is_control:
                        yield logged_record(replica.directory, record)


def _records(chunk: SplitChunk[ScannedHeaders], position: int, header: BatchHeader) -> Sequence[Record]:
    """The records of a batch. Errors: CorruptionError."""
    try:
        return decode_records(chunk.data[position : position + header.size_bytes])
    except ProtocolError as error:
        place = chunk.split.position + position
        problem = CorruptionError(chunk.split.path, position=place, expected="a valid batch", found=str(error))
        raise judged(chunk.split, problem) from problem
