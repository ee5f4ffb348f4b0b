"""What Spark calls to write: tasks stage their rows, and the driver commits what successful tasks staged.

A task's message names its file; Spark passes the driver one for each partition, from the attempt that it authorized.
Invariant: a task keeps at most one record batch and a thousand rows of Spark's Arrow batch beside it in memory, and
nothing that a task does is visible in the log.

Source: PySpark's ``DataSourceArrowWriter`` and ``DataSourceStreamArrowWriter``; ADR 097.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StringType, StructType

from pykraft.errors import StorageError, UsageError
from pykraft.object_storage.uris import UriPath
from pykraft.spark.error_text import without_traceback
from pykraft.spark.sink.commit_rows import QueryFolder
from pykraft.spark.sink.sink_options import SinkOptions, parse_sink_options
from pykraft.spark.sink.staged import BatchMaker, StagedFile, stage
from pykraft.spark.spark_versions import (
    HAS_STREAM_SINK,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

VALUE, KEY = "value", "key"
KINDS: Final[Mapping[str, Sequence[str]]] = {
    VALUE: ("binary", "string"),
    KEY: ("binary", "string"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
}
"""The columns of the sink, and Spark's names of the types that they may have."""
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's local properties of a micro-batch's tasks."""
ROWS_AT_ONCE = 1_000
MS_PER_S = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged(WriterCommitMessage):
    """What one task staged: its file, if it had rows, and for which micro-batch of which query."""

    query_id: str
    batch_id: int
    file: StagedFile | None


def batch_writer(options: Mapping[str, str], schema: StructType, *, is_overwrite: bool) -> QuorumWriter:
    """On the driver. Errors: UsageError for wrong options or columns, and to overwrite; StorageError."""
    if is_overwrite:
        raise UsageError('records of a log are never overwritten: write with .mode("append")')
    return QuorumWriter(parse_sink_options(options, is_stream=False), schema)


def stream_writer(options: Mapping[str, str], schema: StructType, *, is_overwrite: bool) -> QuorumStreamWriter:
    """On the driver, for each micro-batch and each commit. Errors: as `batch_writer`."""
    if is_overwrite:
        raise UsageError('records of a log are never overwritten: write with .outputMode("append")')
    if not HAS_STREAM_SINK:
        raise UsageError("streams are written with Spark 4.1 and later; with this one, write batch queries")
    return QuorumStreamWriter(parse_sink_options(options, is_stream=True), schema)


class QuorumWriter(DataSourceArrowWriter):
    """Writes the rows of a batch query."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        """On the driver. Errors: UsageError for columns that the sink does not have; StorageError."""
        check_columns(schema)
        self._is_temporary = options.staging is None
        root = Path(tempfile.mkdtemp(prefix="pykraft-sink-")) if options.staging is None else options.staging
        self._options = replace(options, staging=made(root))
        self._query_id = options.job_id or uuid4().hex

    @without_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return stage_rows(iterator, self._options, self._query_id, 0)

    @without_traceback
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """See `DataSourceArrowWriter`; it returns when all rows are committed in the log."""
        from pykraft.spark.sink.commit_rows import commit

        commit(self._options, self._folder, 0, _files(_staged(messages)))
        if self._options.job_id is None:
            self._remove()

    @without_traceback
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """See `DataSourceArrowWriter`; what a job with an id has begun to append stays, so that it can continue."""
        if self._options.job_id is None:
            self._remove()
        else:
            self._folder.discard(0, _files(_staged(messages)))

    @property
    def _folder(self) -> QueryFolder:
        return QueryFolder(root_of(self._options), self._query_id)

    def _remove(self) -> None:
        self._folder.remove()
        if self._is_temporary:
            shutil.rmtree(root_of(self._options), ignore_errors=True)


class QuorumStreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of a stream's micro-batches."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        """On the driver, for each micro-batch and each commit. Errors: as `QuorumWriter`."""
        check_columns(schema)
        self._options = replace(options, staging=made(root_of(options)))

    @without_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        context = TaskContext.get()
        assert context is not None, "Spark runs this in a task"
        query_id, batch_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        assert query_id is not None, "Spark names the query of a micro-batch's task"
        assert batch_id is not None, "Spark numbers the micro-batch of a task"
        return stage_rows(iterator, self._options, query_id, int(batch_id))

    @without_traceback
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """See `DataSourceStreamArrowWriter`; it returns when all rows are committed in the log."""
        from pykraft.spark.sink.commit_rows import commit

        staged = _staged(messages)
        for query_id in {each.query_id for each in staged}:
            assert {each.batch_id for each in staged} == {batchId}, "these messages are of this micro-batch"
            commit(self._options, QueryFolder(root_of(self._options), query_id), batchId, _files(staged))

    @without_traceback
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """See `DataSourceStreamArrowWriter`; what is in a manifest stays, since its append may have begun."""
        staged = _staged(messages)
        for query_id in {each.query_id for each in staged}:
            QueryFolder(root_of(self._options), query_id).discard(batchId, _files(staged))


def check_columns(schema: StructType) -> None:
    """Refuse other columns than those of `KINDS`. Errors: UsageError."""
    kinds = {field.name: field.dataType for field in schema}
    wanted = "the sink pykraft writes the column value and, if they are there, key, headers and timestamp"
    if VALUE not in kinds:
        raise UsageError(f"{wanted}; the DataFrame has {', '.join(kinds) or 'no column'}")
    for name, kind in kinds.items():
        if name not in KINDS:
            raise UsageError(f"{wanted}: leave out {name}, as with .select('value')")
        is_text = isinstance(kind, StringType)  # also of a length or a collation
        if ("string" if is_text else kind.simpleString()) not in KINDS[name]:
            wanted = " or ".join(KINDS[name])
            raise UsageError(f"the column {name} must be {wanted}, not {kind.simpleString()}: cast it")


def made(root: Path) -> Path:
    """This folder, which is made if it is missing and not in object storage. Errors: StorageError."""
    if isinstance(root, UriPath):
        return root
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(root, f"the folder for staged rows cannot be made: {error}") from error
    return root


def root_of(options: SinkOptions) -> Path:
    """The folder for staged rows of all queries that name it."""
    assert options.staging is not None, "a writer has one"
    return options.staging


def stage_rows(iterator: Iterator[pa.RecordBatch], options: SinkOptions, query_id: str, batch_id: int) -> Staged:
    """In a task: stage its rows. Errors: UsageError for a row that is too large; StorageError."""
    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    maker = BatchMaker(
        partition=partition, size_bytes_max=options.batch_size_bytes_max, timestamp_ms=int(time.time() * MS_PER_S)
    )
    folder = QueryFolder(root_of(options), query_id).rows_folder(batch_id)
    file = stage(folder, partition, _batches(iterator, maker))
    return Staged(query_id=query_id, batch_id=batch_id, file=file)


def _batches(iterator: Iterator[pa.RecordBatch], maker: BatchMaker) -> Iterator[tuple[bytes, int]]:
    for rows in iterator:
        for start in range(0, rows.num_rows, ROWS_AT_ONCE):
            part = rows.slice(start, ROWS_AT_ONCE)
            names = part.schema.names
            yield from maker.add(
                _bytes_of(part, VALUE),
                _bytes_of(part, KEY) if KEY in names else None,
                headers=part.column("headers").to_pylist() if "headers" in names else None,
                times_us=part.column("timestamp").cast(pa.int64()).to_pylist() if "timestamp" in names else None,
            )
    yield from maker.rest()


def _bytes_of(rows: pa.RecordBatch, name: str) -> list[bytes | None]:
    column = rows.column(name)
    found: list[bytes | None] = column.cast(pa.large_binary()).to_pylist()
    return found


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    return [each for each in messages if isinstance(each, Staged)]


def _files(staged: Sequence[Staged]) -> list[StagedFile]:
    return [each.file for each in staged if each.file is not None]
