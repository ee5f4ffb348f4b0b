"""One commit of a table: its files with their statistics, its name and range, and whether it may be written at all.

A task writes one Parquet file, which is complete and synced before it is reported, with the statistics of Delta's add
action, with which readers skip files. A bound holds for each row of the file; where the footer does not prove one,
there is none: for floating-point numbers (NaN), binary and nested columns, and long texts.

A commit is the name of an append (stream and number of the micro-batch) and the range of the source that its rows
cover, from ``start`` to ``end``; both are stored atomically with the rows. The range is in Spark's checkpoint:
``offsets`` has a file for each micro-batch (a version, metadata, then the end offset of each source as JSON), written
before it starts. Invariant: each commit of a table starts where the one before it ended, so no row is lost or written
twice when a checkpoint is lost or an older one is restored:

1. The table has a commit of this name. With the same range, this is a repetition after a kill, and there is nothing to
   write; with another, the checkpoint used these numbers a second time: an error.
2. The table has no commit of this name. Then the new one must start where the newest one ended.

A table without commits gets no rows, because it may already hold the next ones. Offsets are opaque here.

Delta deletes old entries of its log, so after a month of upkeep alone a table would forget what it holds. So each
commit of ours that is no append carries the newest append that it knew, and the version at which it looked.

Source: Delta's ``txn`` action (the name alone); Spark's ``OffsetSeqLog`` (both, but a checkpoint gets lost); the Delta
protocol (add actions, per-file statistics, ``commitInfo``, ``delta.logRetentionDuration``); Spark's
``FileFormatWriter``; Parquet's column chunk statistics.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction
from pyarrow.parquet import FileMetaData
from pyarrow.parquet import Statistics as ChunkStatistics

from pykraft.errors import StorageError, UsageError
from pykraft.object_storage import shared_folder
from pykraft.object_storage.uris import UriPath
from pykraft.spark.tables.table_folder import log_of, new_file

TEXT_SIZE_BYTES_MAX: Final = 64
"""A longer bound would cost more in every commit than it saves."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def statistics_json(metadata: FileMetaData, columns: pa.Schema) -> str:
    """The field ``stats`` of the add action of a file with this footer and these columns."""
    lowest: dict[str, int | str] = {}
    highest: dict[str, int | str] = {}
    null_count: dict[str, int] = {}
    flat = {field.name: field.type for field in columns if not pa.types.is_nested(field.type)}
    for name, chunks in _chunks(metadata).items():
        # Not `None in chunks`: pyarrow's statistics compared with None end the process.
        known = [chunk for chunk in chunks if chunk is not None]
        if name not in flat or len(known) < len(chunks):
            continue
        if all(chunk.has_null_count for chunk in known):
            null_count[name] = sum(chunk.null_count for chunk in known)
        # A chunk of nulls has no bounds, and takes none from the others.
        filled = [chunk for chunk in known if chunk.has_min_max or not _is_null(chunk)]
        if filled and all(chunk.has_min_max for chunk in filled):
            least = _bound(min(chunk.min_raw for chunk in filled), flat[name])
            greatest = _bound(max(chunk.max_raw for chunk in filled), flat[name])
            if least is not None and greatest is not None:
                lowest[name], highest[name] = least, greatest
    found = {"numRecords": metadata.num_rows, "minValues": lowest, "maxValues": highest, "nullCount": null_count}
    return json.dumps(found)


def _chunks(metadata: FileMetaData) -> dict[str, list[ChunkStatistics | None]]:
    found: dict[str, list[ChunkStatistics | None]] = {}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for place in range(row_group.num_columns):
            column = row_group.column(place)
            found.setdefault(column.path_in_schema, []).append(column.statistics)
    return found


def _is_null(chunk: ChunkStatistics) -> bool:
    return bool(chunk.has_null_count and chunk.num_values == 0)


def _bound(raw: Any, kind: pa.DataType) -> int | str | None:  # noqa: ANN401 - Parquet's physical value
    if pa.types.is_integer(kind):
        return int(raw)
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        when = _EPOCH + timedelta(microseconds=raw)
        zone = "Z" if kind.tz is not None else ""
        return f"{when.replace(tzinfo=None).isoformat(timespec='microseconds')}{zone}"
    if pa.types.is_string(kind) and len(raw) <= TEXT_SIZE_BYTES_MAX:
        return bytes(raw).decode()
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFile:
    """One Parquet file: its name in the folder, bytes, rows, and when it was written (wall ms)."""

    name: str
    size_bytes: int
    rows: int
    modified_ms: int
    statistics: str
    """Those of Delta's add action."""


class ParquetOutput:
    """A file that is being written; without rows there is none. A context manager: what is not finished is deleted.

    Rows wait until there are ``group_size_bytes_min`` of them for a row group; by default each batch becomes one.
    """

    def __init__(self, folder: Path, columns: pa.Schema, *, group_size_bytes_min: int = 0) -> None:
        self._folder = folder
        self._columns = columns
        self._group_size_bytes_min = group_size_bytes_min
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_size_bytes = 0
        self._opened = ExitStack()
        self._path: Path | None = None
        self._file: IO[bytes] | None = None
        self._writer: pq.ParquetWriter | None = None
        self._footers: list[pq.FileMetaData] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._opened.__exit__(kind, error, trace)
        finally:
            if self._path is not None:
                with suppress(StorageError):  # it is in no table, and vacuum deletes it
                    shared_folder.remove(self._path)

    def write(self, rows: pa.RecordBatch) -> None:
        """Add these rows, whose columns are in order. Errors: OSError; pyarrow's for columns of other types."""
        if not rows.num_rows:
            return
        cells = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(rows.columns, self._columns, strict=True)
        ]
        self._waiting.append(pa.RecordBatch.from_arrays(cells, schema=self._columns))
        self._waiting_size_bytes += rows.nbytes
        if self._waiting_size_bytes >= self._group_size_bytes_min:
            self._write_group()

    def finish(self) -> ParquetFile | None:
        """Make the file complete and durable; None if there were no rows. Errors: OSError."""
        if self._waiting:
            self._write_group()
        if self._path is None:
            return None
        assert self._writer is not None
        assert self._file is not None
        self._writer.close()
        size_bytes = self._file.tell()
        self._opened.close()
        (footer,) = self._footers
        path, self._path = self._path, None
        return ParquetFile(
            name=path.name,
            size_bytes=size_bytes,
            rows=footer.num_rows,
            modified_ms=(time.time_ns() if isinstance(path, UriPath) else path.stat().st_mtime_ns) // 1_000_000,
            statistics=statistics_json(footer, self._columns),
        )

    def _write_group(self) -> None:
        group = pa.Table.from_batches(self._waiting).combine_chunks()
        self._waiting, self._waiting_size_bytes = [], 0
        self._begun().write_table(group, row_group_size=group.num_rows)

    def _begun(self) -> pq.ParquetWriter:
        if self._writer is None:
            self._path = self._folder / f"part-{uuid.uuid4()}.parquet"
            self._file = self._opened.enter_context(new_file(self._path))
            self._writer = self._opened.enter_context(
                pq.ParquetWriter(
                    self._file, self._columns, compression="zstd", compression_level=1, metadata_collector=self._footers
                )
            )
        return self._writer


def write_parquet_file(groups: Iterator[pa.RecordBatch], folder: Path, columns: pa.Schema) -> ParquetFile | None:
    """Write these rows, each batch of them as a row group; None if there are none. Errors: OSError."""
    with ParquetOutput(folder, columns) as file:
        for group in groups:
            file.write(group)
        return file.finish()


WAY_OUT = (
    "restore the checkpoint that belongs to the tables; or remove it and run the pipeline, which then says where the "
    "tables end; or write to another folder"
)


OFFSETS: Final = "offsets"
SOURCE_LINE: Final = 2
"""Line of the source's offset in a file of ``offsets``, after the version and the metadata."""
COMMIT: Final = "pykraft.commit"
"""The key in Delta's commit info of an append."""
CARRIED: Final = "pykraft.newest"
"""The key in Delta's commit info of our other commits: the newest append, and the version at which they looked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """An append: its stream, the number of its micro-batch, and the range of source offsets, as JSON values."""

    stream: str
    batch_id: int
    start: Mapping[str, Any]
    end: Mapping[str, Any]

    def as_json(self) -> str:
        return json.dumps({"stream": self.stream, "batch_id": self.batch_id, "start": self.start, "end": self.end})

    @classmethod
    def from_json(cls, text: str) -> Commit:
        """Parse that text. Errors: ValueError, KeyError and TypeError for other text."""
        found = json.loads(text)
        return cls(stream=found["stream"], batch_id=found["batch_id"], start=found["start"], end=found["end"])


def end_offset(checkpoint: Path, batch_id: int) -> dict[str, Any] | None:
    """The end of a micro-batch as the source wrote it; None if there is no file, or one of another form.

    Errors: StorageError if it cannot be read.
    """
    content = shared_folder.content(checkpoint / OFFSETS / str(batch_id))
    try:
        found = json.loads((content or b"").decode().splitlines()[SOURCE_LINE])
    except (ValueError, IndexError):
        return None
    return found if isinstance(found, dict) else None


def commit_of(checkpoint: Path, stream: str, batch_id: int) -> Commit:
    """The commit of the current micro-batch. Errors: StorageError if the checkpoint does not have it."""
    end = _known(checkpoint, batch_id)
    start = begin_of(end) if batch_id == 0 else place_of(_known(checkpoint, batch_id - 1))
    return Commit(stream=stream, batch_id=batch_id, start=start, end=place_of(end))


def cuts_of(checkpoint: Path, batch_id: int) -> dict[str, int]:
    """Replicas whose logs were truncated before this micro-batch, and the offsets from which on their rows are void."""
    end = _known(checkpoint, batch_id).get("replicas", {})
    before = {} if batch_id == 0 else _known(checkpoint, batch_id - 1).get("replicas", {})
    return {
        name: position["cut"] for name, position in end.items() if "cut" in position and position != before.get(name)
    }


def place_of(offset: Mapping[str, Any]) -> dict[str, Any]:
    """Cluster and offsets of the source, with epoch and CRC of the batch before, if they are known.

    Replicas have a directory id or a path here: their names depend on which others there were.
    """
    return _at(offset, "offset", "")


def begin_of(offset: Mapping[str, Any]) -> dict[str, Any]:
    """Where the stream began, which each of its offsets records."""
    return _at(offset, "began", "began_")


def _known(checkpoint: Path, batch_id: int) -> dict[str, Any]:
    found = end_offset(checkpoint, batch_id)
    if found is None:
        raise StorageError(checkpoint / OFFSETS / str(batch_id), "does not contain the end of the micro-batch")
    return found


def _at(offset: Mapping[str, Any], key: str, prefix: str) -> dict[str, Any]:
    if "replicas" in offset:
        positions = {
            position.get("id") or position.get("path") or name: _with_batch({"offset": position[key]}, position, prefix)
            for name, position in offset["replicas"].items()
            if key in position
        }
        return {"cluster": offset["cluster"], "replicas": dict(sorted(positions.items()))}
    return _with_batch({"cluster": offset["cluster"], "offset": offset.get(key)}, offset, prefix)


def _with_batch(place: dict[str, Any], position: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return place | {name: position[prefix + name] for name in ("epoch", "crc") if prefix + name in position}


def offsets_in(place: Mapping[str, Any]) -> dict[str, int]:
    """The offset of each replica; a live quorum has no name. Older versions of pykraft wrote only the offsets."""
    replicas = place.get("replicas", {"": place})
    return {name: found["offset"] if isinstance(found, Mapping) else found for name, found in replicas.items()}


def is_same_place(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two places are the same, as far as both know cluster, epoch and CRC."""
    if offsets_in(one) != offsets_in(other) or not _agree(one, other, ("cluster", "epoch", "crc")):
        return False
    others = other.get("replicas", {})
    return all(_agree(found, others[name], ("epoch", "crc")) for name, found in one.get("replicas", {}).items())


def _agree(one: object, other: object, names: Sequence[str]) -> bool:
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return True
    pairs = ((one.get(name), other.get(name)) for name in names)
    return all(None in pair or pair[0] == pair[1] for pair in pairs)


def check_first(folder: Path, asked: Commit) -> None:
    """Reject a commit that cannot be the first of a table. Errors: UsageError."""
    if asked.batch_id > 0:
        raise UsageError(
            f"{folder}: the checkpoint is at micro-batch {asked.batch_id}, but the table with the earlier rows is "
            "gone: restore it, or write to another folder"
        )


def is_new(folder: Path, asked: Commit, *, same: Commit | None, newest: Commit | None) -> bool:
    """Whether to write these rows into an existing table; False if the table already has them.

    ``same`` is the table's commit with the name of ``asked``, and ``newest`` its last commit; None if there is none.

    Errors: UsageError if the table neither has these rows nor ends where they start.
    """
    if newest is None:
        raise UsageError(
            f"{folder}: the table does not record which part of the log it holds; an older pykraft or another program "
            "wrote it. Write to another folder"
        )
    if same is not None:
        # 1. A repetition, or a checkpoint that counts anew.
        if not (is_same_place(same.start, asked.start) and is_same_place(same.end, asked.end)):
            raise UsageError(
                f"{folder}: micro-batch {asked.batch_id} of the checkpoint is {_span(asked)}, but the table holds "
                f"{_span(same)} under that number: the checkpoint is too old. To continue, {WAY_OUT}"
            )
        return False
    # 2. A new name must continue the table.
    if not is_same_place(newest.end, asked.start):
        raise UsageError(
            f"{folder}: the next micro-batch of the checkpoint is {_span(asked)}, but the table ends "
            f"with {_span(newest)}: rows would be missing or duplicated. To continue, {WAY_OUT}"
        )
    return True


def _span(commit: Commit) -> str:
    return f"{json.dumps(commit.start)} to {json.dumps(commit.end)}"


def add_action(file: ParquetFile, *, data_change: bool = True) -> AddAction:
    """The action that adds this file; without ``data_change`` its rows were in the table before."""
    return AddAction(
        path=file.name,
        size=file.size_bytes,
        partition_values={},
        modification_time=file.modified_ms,
        data_change=data_change,
        stats=file.statistics,
    )


def carried(table: DeltaTable) -> dict[str, str]:
    """What a commit that is no append adds to its commit info."""
    newest = newest_commit(table)
    if newest is None:
        return {}
    return {CARRIED: json.dumps({"version": table.version(), "commit": newest.as_json()})}


def newest_commit(table: DeltaTable) -> Commit | None:
    """The newest append; None if there is none."""
    return next(_commits(table), None)


def named_commit(table: DeltaTable, stream: str, batch_id: int) -> Commit | None:
    """The append of this name, if the number of the application transaction says that there was one.

    None also if Delta's log no longer has it.
    """
    done = table.transaction_version(stream)
    if done is None or done < batch_id:
        return None
    return next((each for each in _commits(table) if (each.stream, each.batch_id) == (stream, batch_id)), None)


def _commits(table: DeltaTable) -> Iterator[Commit]:
    """The appends that the log still knows, the newest first; one may come twice."""
    known: Commit | None = None
    known_version = -1
    for info in _versions(table):
        if known is not None and info["version"] <= known_version:
            # The carrier saw all appends from here on.
            yield known
            known = None
        if COMMIT in info:
            yield Commit.from_json(info[COMMIT])
        elif known is None and CARRIED in info:
            found = json.loads(info[CARRIED])
            known, known_version = Commit.from_json(found["commit"]), found["version"]
    if known is not None:
        yield known


def _versions(table: DeltaTable) -> Iterator[Mapping[str, Any]]:
    """Delta's commit infos, the newest first, each read when it is asked for.

    ``table.history`` reads many of them at once, and holds Python's global lock while object storage does not answer.
    """
    log = log_of(table)
    for version in range(table.version(), -1, -1):
        content = shared_folder.content(log / f"{version:020d}.json")
        if content is None:
            return  # Delta deletes old entries
        for action in map(json.loads, content.splitlines()):
            if "commitInfo" in action:
                yield {**action["commitInfo"], "version": version}
