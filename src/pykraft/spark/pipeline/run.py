"""The pipeline as one stream: bronze and silver grow by micro-batches, each row exactly once despite kills.

The tasks of a micro-batch write the files of all three tables in one pass (`pykraft.spark.pipeline.micro_batch`). Then
the driver commits them, one table after the other: bronze ``batches``, silver ``records`` and ``control``.

Each append has the stream's name and the batch's number, so repeating it has no effect (`pykraft.spark.tables`). The
checkpoint beside the tables belongs to them; each append also stores the source's offsets, so an append that does not
follow the table is rejected (`pykraft.spark.pipeline.checkpoint`).

Invariant: all three tables hold the same micro-batches, except for the one in progress. `gold` reads the tables.

Source: Spark's ``foreachBatch`` and its checkpoint protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pykraft.spark.pipeline.checkpoint import check_belongs, commit_of
from pykraft.spark.pipeline.micro_batch import TABLE_COLUMNS, write_files
from pykraft.spark.pipeline.upkeep import keep_stream_tables
from pykraft.spark.tables.commit import Commit
from pykraft.spark.tables.delta import DeltaTables
from pykraft.spark.tables.former_parquet import convert_parquet_tables
from pykraft.spark.tables.names import CHECKPOINT, QUERY, UPKEEP_INTERVAL

TRIGGER = "500 milliseconds"
LIMIT_OPTIONS = ("maxRecordsPerTrigger", "maxBytesPerTrigger")
BATCH_SIZE_BYTES_MAX = 128 * 1024 * 1024
"""Default size of a micro-batch: without a limit the first one would be the whole log, and start over after each kill.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions:
    """``source`` are the options of `pykraft.spark.data_source.options`; ``root`` is the folder of the tables.

    Without another limit a micro-batch holds at most `BATCH_SIZE_BYTES_MAX` of the log.
    """

    source: Mapping[str, str]
    root: Path
    follow: bool = False
    """Keep writing new records; otherwise stop at the current end."""
    upkeep_interval: int = UPKEEP_INTERVAL
    """Micro-batches from one compaction to the next; 0 is never."""

    def tables(self) -> DeltaTables:
        """The tables."""
        return DeltaTables(self.root)


def start_pipeline(spark: SparkSession, options: PipelineOptions) -> StreamingQuery:
    """Start the stream, or continue it. ``awaitTermination`` of the query waits for its end.

    Errors: UsageError for wrong options, and for tables without their checkpoint. Errors found later, such as a
    checkpoint of another quorum or one older than the tables, end the query.
    """
    tables = options.tables()
    convert_parquet_tables(tables)
    checkpoint = options.root / CHECKPOINT
    check_belongs(tables, checkpoint, options.source)
    source = spark.readStream.format("pykraft").options(**_limited(options.source), rows="batches").load()

    def write(frame: DataFrame, batch_id: int) -> None:
        append_all(tables, frame, commit_of(checkpoint, _stream_of(frame), batch_id))
        # A kill here repeats the micro-batch, which the tables have, and then the upkeep.
        keep_stream_tables(options.root, batch_id, interval=options.upkeep_interval)

    writer = source.writeStream.queryName(QUERY).option("checkpointLocation", str(checkpoint)).foreachBatch(write)
    trigger = writer.trigger(processingTime=TRIGGER) if options.follow else writer.trigger(availableNow=True)
    return trigger.start()


def append_all(tables: DeltaTables, bronze: DataFrame, commit: Commit) -> None:
    """Append one micro-batch to all tables.

    Errors: UsageError if it does not follow what they hold; StorageError; errors of the tasks, as Spark raises them.
    """
    appends = {}
    for name, columns in TABLE_COLUMNS.items():
        # After a kill in between, Spark repeats the batch; some tables have it already.
        if (append := tables.begin(name, columns, commit)) is not None:
            appends[name] = append
    if appends:
        files = write_files(bronze, {name: append.folder for name, append in appends.items()})
        for name, append in appends.items():
            append.finish(files[name])


def _stream_of(frame: DataFrame) -> str:
    """The id of the query, which its checkpoint stores: another checkpoint is another stream."""
    return str(frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))


def _limited(source: Mapping[str, str]) -> dict[str, str]:
    """The source's options, with a limit for micro-batches."""
    given = {name.lower() for name in source}
    if any(name.lower() in given for name in LIMIT_OPTIONS):
        return dict(source)
    return {**source, "maxBytesPerTrigger": str(BATCH_SIZE_BYTES_MAX)}
