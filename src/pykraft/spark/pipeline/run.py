"""The pipeline as one stream: bronze and silver grow by micro-batches, each row once, whatever is killed when.

Steps of a micro-batch, each an append under the stream's name and the batch's number, so that a repeated one is none
(`pykraft.spark.tables`): 1. bronze ``batches``; 2. silver ``records``; 3. silver ``control``; 4. silver ``payloads``.
The checkpoint lies beside the tables and belongs to them; each append keeps the source's offsets too, so one that does
not follow the tables is refused (`pykraft.spark.pipeline.checkpoint`).

Invariant: all four tables hold the same micro-batches, but for the one that is under way. It refuses to know what is
made of the tables (`gold`).

Source: Spark's ``foreachBatch`` and its checkpoint protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pykraft.errors import UsageError
from pykraft.spark.pipeline import silver
from pykraft.spark.pipeline.checkpoint import check_belongs, commit_of
from pykraft.spark.pipeline.names import BRONZE, CHECKPOINT, CONTROL, PAYLOADS, RECORDS
from pykraft.spark.tables.commit import Commit
from pykraft.spark.tables.delta import DeltaTables
from pykraft.spark.tables.parquet import ParquetTables
from pykraft.spark.tables.table import Tables

FORMATS: Mapping[str, Callable[[Path], Tables]] = {"delta": DeltaTables, "parquet": ParquetTables}
TRIGGER = "500 milliseconds"
LIMIT_OPTIONS = ("maxRecordsPerTrigger", "maxBytesPerTrigger")
BATCH_SIZE_BYTES_MAX = 128 * 1024 * 1024
"""Of a micro-batch, where no option sets a limit: the first would be the whole log, and begin anew after each kill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions:
    """``source`` are the options of the data source (`pykraft.spark.options`); ``root`` is the folder of the tables.

    Without a limit of their own a micro-batch holds at most `BATCH_SIZE_BYTES_MAX` of the log.
    """

    source: Mapping[str, str]
    root: Path
    table_format: str = "delta"
    follow: bool = False
    """Go on with what comes later; else end with what is there."""

    def tables(self) -> Tables:
        """The tables. Errors: UsageError for a format that is not known, or another one than the folder has."""
        if self.table_format not in FORMATS:
            raise UsageError(f"tables are {' or '.join(FORMATS)}, not {self.table_format}")
        others = [name for name, make in FORMATS.items() if name != self.table_format and make(self.root).has(BRONZE)]
        if others:
            raise UsageError(f"{self.root}: the tables there are {others[0]}, not {self.table_format}")
        return FORMATS[self.table_format](self.root)


def start_pipeline(spark: SparkSession, options: PipelineOptions) -> StreamingQuery:
    """Begin, or go on where it was. ``awaitTermination`` of the query waits for its end.

    Errors: UsageError for wrong options, and for tables without the checkpoint that belongs to them. Later ones, such
    as a checkpoint of another quorum or one that is older than the tables, end the query.
    """
    tables = options.tables()
    checkpoint = options.root / CHECKPOINT
    check_belongs(tables, checkpoint, options.source)
    source = spark.readStream.format("pykraft").options(**_limited(options.source), rows="batches").load()
    writer = (
        source.writeStream.queryName("pykraft pipeline")
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(
            lambda frame, batch_id: append_all(tables, frame, commit_of(checkpoint, _stream_of(frame), batch_id))
        )
    )
    trigger = writer.trigger(processingTime=TRIGGER) if options.follow else writer.trigger(availableNow=True)
    return trigger.start()


def append_all(tables: Tables, bronze: DataFrame, commit: Commit) -> None:
    """One micro-batch into all tables.

    Errors: UsageError when it does not follow what they have; StorageError; what the tasks ran into, as Spark tells it.
    """
    bronze = bronze.persist()
    records = silver.records(bronze).persist()
    try:
        for name, frame in (
            (BRONZE, bronze),
            (RECORDS, records),
            (CONTROL, silver.control(records)),
            (PAYLOADS, silver.payloads(records)),
        ):
            tables.append(name, frame, commit)
    finally:
        records.unpersist()
        bronze.unpersist()


def _stream_of(frame: DataFrame) -> str:
    """The id of the query, which lives in its checkpoint: another checkpoint is another stream."""
    return str(frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))


def _limited(source: Mapping[str, str]) -> dict[str, str]:
    """The source's options, with a limit of a micro-batch."""
    given = {name.lower() for name in source}
    if any(name.lower() in given for name in LIMIT_OPTIONS):
        return dict(source)
    return {**source, "maxBytesPerTrigger": str(BATCH_SIZE_BYTES_MAX)}
