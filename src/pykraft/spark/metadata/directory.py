"""Reads metadata records from a replica's directory or a live quorum: the newest fitting snapshot, then the log.

A moment is an offset of the metadata log (``157``: after the records below it, as a snapshot of this end offset holds
them) or a wall time (``2026-11-23T14:03``, UTC unless it names a zone). Times are those of leaders, whose clocks may
have gone back: the log counts up to the first record that is too new.

Invariant: the records describe the cluster completely, or there is an error; damaged ones are never returned. Memory
holds one chunk of the log, or one batch of a snapshot. Of a quorum only committed records are read; a directory may end
with others.

Source: KIP-595 §Fetch, KIP-630, KIP-631; ISO 8601.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pykraft.client.reader import StateReader
from pykraft.client.remote.observer import QUERY_LIMITS, QUERY_PATIENCE, Observer, Start
from pykraft.config import METADATA_TOPIC_NAME
from pykraft.errors import CorruptionError, ProtocolError, UsageError
from pykraft.log.fs import Fs
from pykraft.object_storage.files import Files
from pykraft.protocol.batch import BatchHeader
from pykraft.protocol.metadata.record import MetadataRecord, read_metadata_record
from pykraft.protocol.records import Record, decode_records
from pykraft.security.settings import IN_THE_CLEAR, Security
from pykraft.snapshot.files import BOOTSTRAP_ID, list_snapshots
from pykraft.snapshot.head import SnapshotReader, read_head
from pykraft.spark.data_source.file_plan import end_of, find_replicas, plan_batch
from pykraft.spark.data_source.options import parse_options
from pykraft.spark.data_source.splits import ScannedHeaders, SplitChunk, judged, read_chunks
from pykraft.spark.data_source.walk import ReplicaLog
from pykraft.spark.metadata.image import LoggedRecord, logged_record
from pykraft.types import Endpoint, Offset, OffsetAndEpoch

_OFFSET: Final = re.compile("[0-9]{1,19}")
_OFFSET_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An exclusive end offset, or an inclusive wall time (ms); neither: what is known now."""

    end_offset: Offset | None = None
    wall_ms: int | None = None

    def includes(self, offset: Offset, timestamp_ms: int) -> bool:
        """Whether a record at this offset, appended at this time, was there."""
        if self.end_offset is not None:
            return offset < self.end_offset
        return self.wall_ms is None or timestamp_ms <= self.wall_ms


NOW: Final = Moment()


def parse_moment(text: str, option: str) -> Moment:
    """An offset or a time, as ``option`` of a command gave it. Errors: UsageError."""
    if _OFFSET.fullmatch(text):
        if int(text) > _OFFSET_MAX:
            raise UsageError(f"{option} {text}: an offset is at most {_OFFSET_MAX}")
        return Moment(end_offset=Offset(int(text)))
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return Moment(wall_ms=int(time.timestamp() * 1_000))
    except (ValueError, OverflowError):
        raise UsageError(f"{option} {text}: give an offset, or a time such as 2026-11-23T14:03") from None


class _Serde:
    def deserialize(self, data: bytes) -> MetadataRecord:
        return read_metadata_record(data)


def newest_within(fs: Fs, directory: Path, moment: Moment) -> OffsetAndEpoch | None:
    """The newest snapshot of the cluster at this moment or before. Errors: CorruptionError; StorageError."""
    for snapshot_id in reversed(list_snapshots(fs, directory)):
        if snapshot_id == BOOTSTRAP_ID:  # the first leader wrote its records into the log
            return None
        if moment.end_offset is None:
            _, head = read_head(fs, directory, snapshot_id)
            if moment.wall_ms is None or head.last_contained_log_timestamp <= moment.wall_ms:
                return snapshot_id
        elif snapshot_id.offset <= moment.end_offset:
            return snapshot_id
    return None


def oldest_from(fs: Fs, directory: Path, log_start: Offset) -> OffsetAndEpoch | None:
    """The oldest snapshot from which the log goes on; None if the log is whole. Errors: StorageError."""
    if log_start == 0:
        return None
    return next((one for one in list_snapshots(fs, directory) if one.offset >= log_start), None)


def snapshot_records(fs: Fs, directory: Path, snapshot_id: OffsetAndEpoch) -> Iterator[LoggedRecord]:
    """The records of a snapshot. Errors: CorruptionError; DeserializeError; StorageError."""
    reader = SnapshotReader.of(fs, directory, snapshot_id, _Serde())
    end_offset, timestamp_ms = snapshot_id.offset, reader.last_contained_log_timestamp
    with closing(reader):
        for batch in reader:
            for record in batch.records:
                yield LoggedRecord(offset=None, end_offset=end_offset, timestamp_ms=timestamp_ms, record=record)


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
    try:
        return decode_records(chunk.data[position : position + header.size_bytes])
    except ProtocolError as error:
        place = chunk.split.position + position
        problem = CorruptionError(chunk.split.path, position=place, expected="a valid batch", found=str(error))
        raise judged(chunk.split, problem) from problem


CLIENT_ID: Final = "pykraft-metadata"


class _EnoughError(Exception):
    """Raised at the first record that the moment does not include."""


def read_live(
    bootstrap: Sequence[Endpoint],
    moment: Moment,
    take: Callable[[LoggedRecord], object],
    security: Security = IN_THE_CLEAR,
) -> Offset:
    """Pass on the records that describe the cluster at a moment, and return the offset after the last.

    Errors: UsageError if the quorum's log does not reach back, or not up, to that moment; ProtocolError for a record
    that this version cannot decode; QuorumUnavailableError.
    """
    return asyncio.run(_Reading(bootstrap, moment, take).run(security))


class _Reading:
    def __init__(self, bootstrap: Sequence[Endpoint], moment: Moment, take: Callable[[LoggedRecord], object]) -> None:
        self._bootstrap = bootstrap
        self._moment = moment
        self._take = take
        self._end = Offset(0)

    async def run(self, security: Security) -> Offset:
        observer = Observer(
            self._bootstrap,
            start=Start.EARLIEST,
            client_id=CLIENT_ID,
            patience=QUERY_PATIENCE,
            limits=QUERY_LIMITS,
            load_snapshot=self._load,
            security=security,
        )
        async with observer:
            await observer.begin()
            high_watermark = observer.high_watermark or Offset(0)
            wanted = self._moment.end_offset
            if wanted is not None and wanted > high_watermark:
                raise UsageError(f"the quorum has committed {high_watermark} offsets, not yet {wanted}")
            with suppress(_EnoughError):
                if self._end >= high_watermark:
                    return self._end
                async for batch in observer:
                    for record in decode_records(batch.data, verify_crc=False):
                        self._one(record, is_control=batch.is_control)
                    if batch.end_offset >= high_watermark:
                        break
        return self._end

    async def _load(self, reader: StateReader[bytes]) -> None:
        """Take a snapshot. Errors: UsageError if the cluster was already another one at the moment."""
        end_offset, timestamp_ms = reader.snapshot_id.offset, reader.last_contained_log_timestamp
        if end_offset and not self._moment.includes(Offset(end_offset - 1), timestamp_ms):
            raise UsageError(f"the quorum's snapshot, which ends at offset {end_offset}, is newer than this moment")
        async for batch in reader:
            for value in batch.records:
                record = read_metadata_record(value)
                self._take(LoggedRecord(offset=None, end_offset=end_offset, timestamp_ms=timestamp_ms, record=record))
        self._end = end_offset

    def _one(self, record: Record, *, is_control: bool) -> None:
        if record.offset < self._end:
            return
        if not self._moment.includes(record.offset, record.timestamp_ms):
            raise _EnoughError
        if not is_control:
            self._take(logged_record("the quorum's log", record))
        self._end = Offset(record.offset + 1)
