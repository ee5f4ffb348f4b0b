"""Parquet files of rows like those of the silver tables, and Delta tables of them, written without Spark."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import create_table_with_add_actions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from pykraft.spark.tables.commit import COMMIT, Commit, ParquetFile, add_action, write_parquet_file
from pykraft.spark.tables.delta import DeltaTables, write_parquet_files
from pykraft.spark.tables.names import RECORDS

LOG_COLUMNS = pa.schema(
    [
        ("replica", pa.string()),
        ("offset", pa.int64()),
        ("epoch", pa.int32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("value", pa.binary()),
        ("corrupt", pa.string()),
    ]
)
LOG_TYPES = StructType(
    [
        StructField("replica", StringType()),
        StructField("offset", LongType()),
        StructField("epoch", IntegerType()),
        StructField("timestamp", TimestampType()),
        StructField("value", BinaryType()),
        StructField("corrupt", StringType()),
    ]
)
FILES = ((range(10), 1, "n1"), (range(10, 20), 2, "n2"), (range(20, 30), 3, "n1"))


def at(offset: int) -> datetime:
    """When the record with this offset was appended."""
    return datetime(2026, 1, 2, 3, 4, tzinfo=UTC) + timedelta(seconds=offset)


def log_rows(
    offsets: Sequence[int], *, epoch: int = 1, replica: str | None = "n1", size_bytes: int = 10
) -> pa.RecordBatch:
    """A row for each offset; values do not compress."""
    rows = [
        {
            "replica": replica,
            "offset": offset,
            "epoch": epoch,
            "timestamp": at(offset),
            "value": _noise(offset, size_bytes),
            "corrupt": None,
        }
        for offset in offsets
    ]
    return pa.RecordBatch.from_pylist(rows, schema=LOG_COLUMNS)


def written(folder: Path, *groups: pa.RecordBatch) -> ParquetFile:
    """A file in this folder, each batch a row group."""
    file = write_parquet_file(iter(groups), folder, groups[0].schema)
    assert file is not None
    return file


def make_table(folder: Path, *, appends: int, count: int = 10, size_bytes: int = 10) -> None:
    """A Delta table of the stream ``s``, whose appends each have so many rows of one replica in one file."""
    columns = Schema.from_arrow(LOG_COLUMNS)
    create_table_with_add_actions(str(folder), columns, [])
    for number in range(appends):
        append(folder, number, count=count, size_bytes=size_bytes)


def append(folder: Path, number: int, *, count: int = 10, size_bytes: int = 10, stream: str = "s") -> None:
    """The next append, as the pipeline commits it."""
    rows = log_rows(range(number * count, (number + 1) * count), size_bytes=size_bytes)
    properties = CommitProperties(
        app_transactions=[Transaction(stream, number)],
        custom_metadata={COMMIT: commit(number, stream=stream).as_json()},
    )
    DeltaTable(folder).create_write_transaction(
        [add_action(written(folder, rows))], "append", Schema.from_arrow(LOG_COLUMNS), commit_properties=properties
    )


def forget_log(folder: Path) -> None:
    """Delete old entries of the log, as Delta does: the newest stays, behind a checkpoint."""
    table = DeltaTable(folder)
    table.create_checkpoint()
    for path in (folder / "_delta_log").glob("*.json"):
        if int(path.stem) < table.version():
            path.unlink()


def _noise(seed: int, size_bytes: int) -> bytes:
    return Random(seed).randbytes(size_bytes)


def commit(batch_id: int, *, stream: str = "s", start: int | None = None, end: int | None = None) -> Commit:
    """A micro-batch of ten offsets, unless others are given."""
    begin = 10 * batch_id if start is None else start
    return Commit(
        stream=stream,
        batch_id=batch_id,
        start={"cluster": "c", "offset": begin},
        end={"cluster": "c", "offset": begin + 10 if end is None else end},
    )


COLUMNS = "id long, at timestamp, name string, content binary, is_even boolean"


def frame(spark: SparkSession, *ids: int) -> DataFrame:
    """One row for each id."""
    at = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    rows = [
        (number, at, f"row {number}", bytes([number]), None if number % 3 == 0 else number % 2 == 0) for number in ids
    ]
    return spark.createDataFrame(rows, COLUMNS)


def ids(spark: SparkSession, tables: DeltaTables) -> list[int]:
    """The ids of all rows of the table ``t``."""
    return sorted(row["id"] for row in tables.read(spark, "t").collect())


def append_log_rows(tables: DeltaTables, number: int) -> int | None:
    """Append the ten rows of this micro-batch to ``records``, in one file; their number, None if they are there."""
    begun = tables.begin(RECORDS, LOG_TYPES, commit(number))
    rows = log_rows(range(10 * number, 10 * (number + 1)))
    return None if begun is None else begun.finish([written(begun.folder, rows)])


def append_rows(tables: DeltaTables, name: str, rows: DataFrame, commit: Commit) -> int | None:
    """Append these rows, as the pipeline does for several tables at once; their number, None if they are there."""
    begun = tables.begin(name, rows.schema, commit)
    return None if begun is None else begun.finish(write_parquet_files(rows, begun.folder))
