"""The pipeline as one stream: bronze and silver grow by micro-batches, each row exactly once despite kills.

The tasks of a micro-batch write the files of all three tables in one pass (`pykraft.spark.pipeline.silver`). Then the
driver commits them, one table after the other: bronze ``batches``, silver ``records`` and ``control``. Repeating an
append has no effect, and one that does not follow its table is rejected (`pykraft.spark.tables`). The checkpoint, which
is beside them by default, belongs to them. Spark retries a task whose Python worker died, but not the Python process
that serves a source's offsets: if that is killed, the query ends, and `KeptQuery` restarts it.

Invariant: all three tables hold the same micro-batches, except for the one in progress. A query that ended with an
error of ours is not restarted, nor one that dies again and again without finishing a micro-batch.

Source: Spark's ``foreachBatch`` and ``PythonStreamingSourceRunner``; the restarts of a supervisor (Erlang's intensity).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pykraft.errors import PykraftError, TruncatedLogError, UsageError
from pykraft.object_storage.uris import UriPath
from pykraft.spark.error_text import error_in, reason
from pykraft.spark.pipeline.silver import TABLE_COLUMNS, write_files
from pykraft.spark.pipeline.status import check_belongs
from pykraft.spark.pipeline.upkeep import keep_stream_tables
from pykraft.spark.tables.commit import Commit, commit_of, cuts_of
from pykraft.spark.tables.delta import DeltaTables, convert_parquet_tables
from pykraft.spark.tables.names import BRONZE, CHECKPOINT, QUERY, UPKEEP_INTERVAL

RESTARTS_MAX = 3
"""Restarts without a finished micro-batch in between."""


TRIGGER = "500 milliseconds"
LIMIT_OPTIONS = ("maxRecordsPerTrigger", "maxBytesPerTrigger")
BATCH_SIZE_BYTES_MAX = 128 * 1024 * 1024
"""Default size of a micro-batch: without a limit the first one would be the whole log, and start over after each kill.
"""


class KeptQuery:
    """A query that ``start`` starts and restarts."""

    def __init__(self, start: Callable[[], StreamingQuery]) -> None:
        """Errors: those of ``start``."""
        self._start = start
        self._query = start()
        self._left = RESTARTS_MAX
        self._last_id = -1
        self._unread: list[Mapping[str, Any]] = []
        self.restarts = 0
        self.newest: Mapping[str, Any] | None = None
        """Spark's newest report, with rows or not, as `progress` has found it."""

    def wait(self, timeout_s: float) -> bool:
        """Wait; True if the query has ended and everything is written. Errors: PykraftError with the reason."""
        try:
            return bool(self._query.awaitTermination(timeout_s))
        except StreamingQueryException as error:
            ours = error_in(str(error))
            self._poll()
            if self._left == 0 or not (ours is None or isinstance(ours, TruncatedLogError)):
                raise (ours or PykraftError(f"the query ended: {reason(str(error))}")) from error
        self._left -= 1
        self.restarts += 1
        self._query = self._start()
        return False

    def progress(self) -> list[Mapping[str, Any]]:
        """Spark's reports of the micro-batches with rows that finished since the last call."""
        self._poll()
        told, self._unread = self._unread, []
        return told

    def _poll(self) -> None:
        for progress in self._query.recentProgress:
            self.newest = progress
            if progress["batchId"] > self._last_id and progress["numInputRows"]:
                self._last_id = progress["batchId"]
                self._unread.append(progress)
                self._left = RESTARTS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions:
    """``source`` are the options of `pykraft.spark.data_source.options`; ``root`` is the folder of the tables.

    Without another limit a micro-batch holds at most `BATCH_SIZE_BYTES_MAX` of the log.
    """

    source: Mapping[str, str]
    root: Path
    """Also a URI of object storage."""
    checkpoint: Path | None = None
    """Spark's checkpoint of the stream, if it is not in ``root``: on the driver's machine, or where Spark can write."""
    follow: bool = False
    """Keep writing new records; otherwise stop at the current end."""
    upkeep_interval: int = UPKEEP_INTERVAL
    """Micro-batches from one compaction to the next; 0 is never."""

    def tables(self) -> DeltaTables:
        """Errors: UsageError for a URI of storage that no table can be in."""
        return DeltaTables(self.root)


def start_pipeline(spark: SparkSession, options: PipelineOptions) -> StreamingQuery:
    """Start the stream, or continue it. ``awaitTermination`` of the query waits for its end.

    Errors: UsageError for wrong options, for tables without their checkpoint, and for a checkpoint where Spark cannot
    write. Errors found later, such as a checkpoint of another quorum or one older than the tables, end the query.
    """
    tables = options.tables()
    convert_parquet_tables(tables)
    checkpoint = tables.root / CHECKPOINT if options.checkpoint is None else options.checkpoint
    check_belongs(tables, checkpoint, options.source)
    source = spark.readStream.format("pykraft").options(**_limited(options.source), rows="batches").load()

    def write(frame: DataFrame, batch_id: int) -> None:
        commit = commit_of(checkpoint, _stream_of(frame), batch_id)
        append_all(tables, frame, commit, cuts=cuts_of(checkpoint, batch_id))
        # A kill here repeats the micro-batch, which the tables have, and then the upkeep.
        keep_stream_tables(tables.root, batch_id, interval=options.upkeep_interval)

    writer = source.writeStream.queryName(QUERY).option("checkpointLocation", str(checkpoint)).foreachBatch(write)
    trigger = writer.trigger(processingTime=TRIGGER) if options.follow else writer.trigger(availableNow=True)
    try:
        return trigger.start()
    except Py4JJavaError as error:
        if not isinstance(checkpoint, UriPath):
            raise
        raise UsageError(
            f"{checkpoint}: Spark writes the checkpoint, and cannot write there: {error.java_exception.toString()}. "
            "Name a folder of the driver's machine (--checkpoint), which no executor needs, or give Spark the jar of "
            "that storage, such as hadoop-aws for s3a://"
        ) from None


def append_all(
    tables: DeltaTables, bronze: DataFrame, commit: Commit, *, cuts: Mapping[str, int] | None = None
) -> None:
    """Append one micro-batch to all tables, after the rows from ``cuts`` on were deleted (replica and offset).

    Errors: UsageError if it does not follow what they hold; StorageError; errors of the tasks, as Spark raises them.
    """
    appends = {}
    for name, columns in TABLE_COLUMNS.items():
        # After a kill in between, Spark repeats the batch; some tables have it already.
        append = tables.begin(name, columns, commit)
        if append is not None and cuts:
            tables.cut(name, "base_offset" if name == BRONZE else "offset", cuts)
            append = tables.begin(name, columns, commit)
        if append is not None:
            appends[name] = append
    if appends:
        files = write_files(bronze, {name: append.folder for name, append in appends.items()})
        for name, append in appends.items():
            append.finish(files[name])


def _stream_of(frame: DataFrame) -> str:
    return str(frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))


def _limited(source: Mapping[str, str]) -> dict[str, str]:
    given = {name.lower() for name in source}
    has_limit = any(name.lower() in given for name in LIMIT_OPTIONS)
    limit = {} if has_limit else {"maxBytesPerTrigger": str(BATCH_SIZE_BYTES_MAX)}
    return {"onTruncation": "repair", **source, **limit}
