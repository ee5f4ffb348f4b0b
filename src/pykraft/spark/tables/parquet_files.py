"""Writes the rows of a DataFrame as Parquet files in Spark's tasks, and reports the files.

Invariant: only files of successful task attempts are reported, so the files of a failed attempt are in no table. All
tasks and the driver must share the folder.

Source: Spark's ``FileFormatWriter``; Delta's add actions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pykraft.spark.arrow_columns import number_column, text_column
from pykraft.spark.tables.parquet_writer import ParquetFile, make_folder, write_parquet_file

FILE_COLUMNS = "name string, size_bytes long, rows long, modified_ms long, statistics string"
FILE_NAMES = [column.split()[0] for column in FILE_COLUMNS.split(", ")]
"""What a task reports of a file."""


def write_parquet_files(frame: DataFrame, folder: Path) -> list[ParquetFile]:
    """The files with the rows of ``frame``, one for each of its non-empty partitions.

    Errors: StorageError if the folder cannot be created; errors of the tasks, as Spark raises them.
    """
    make_folder(folder)
    columns = column_types(frame.schema)

    def write(groups: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file = write_parquet_file(groups, folder, columns)
        if file is not None:
            yield pa.RecordBatch.from_arrays(file_columns(file), names=FILE_NAMES)

    return [ParquetFile(**row.asDict()) for row in frame.mapInArrow(write, FILE_COLUMNS).collect()]


def file_columns(file: ParquetFile) -> list[pa.Array]:
    """A file as a row of `FILE_COLUMNS`."""
    numbers = [number_column([number], pa.int64()) for number in (file.size_bytes, file.rows, file.modified_ms)]
    return [text_column([file.name]), *numbers, text_column([file.statistics])]


def column_types(schema: StructType) -> pa.Schema:
    """The types of the columns in a file: without Spark's metadata, times in UTC, all nullable."""
    arrow = to_arrow_schema(schema, timezone="UTC")
    return pa.schema([pa.field(field.name, field.type) for field in arrow])
