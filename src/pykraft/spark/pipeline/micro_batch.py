"""Writes the files of all tables of a micro-batch in one pass over its record batches.

A task gets batches from the source, decodes them once, and writes up to three files: the batches as they are, their
records, and the control records. No row goes back to the JVM, and none is kept for another pass.

Invariant: as in `pykraft.spark.tables.delta`, only files of successful task attempts are reported.

Source: `pykraft.spark.pipeline.silver` makes the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from pykraft.spark.arrow_columns import text_column
from pykraft.spark.data_source.schema import BATCHES
from pykraft.spark.data_source.schema import RECORDS as RECORD_COLUMNS
from pykraft.spark.pipeline import silver
from pykraft.spark.tables.delta import FILE_COLUMNS, FILE_NAMES, column_types, file_columns
from pykraft.spark.tables.names import BRONZE, CONTROL, RECORDS
from pykraft.spark.tables.parquet_writer import ParquetFile, ParquetOutput

TABLE_COLUMNS: Final[Mapping[str, StructType]] = {
    BRONZE: BATCHES,
    RECORDS: RECORD_COLUMNS,
    CONTROL: silver.CONTROL,
}
"""The columns of each table, in the order in which tables are committed."""
ROW_GROUP_SIZE_BYTES: Final = 8 * 1024 * 1024
"""Rows in memory, about, that become one row group; a compressed batch alone may be small."""


def write_files(bronze: DataFrame, folders: Mapping[str, Path]) -> dict[str, list[ParquetFile]]:
    """Write the rows of these batches into a folder for each table that is named; returns the files of each.

    In: the source's ``batches``. Memory of a task: the group of rows that it gets, what it decodes of about
    `ROW_GROUP_SIZE_BYTES` of them, and as much for each table.

    Errors: errors of the tasks, as Spark raises them.
    """
    kinds = {name: column_types(TABLE_COLUMNS[name]) for name in folders}

    def write(groups: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with ExitStack() as stack:
            outputs = {
                name: stack.enter_context(ParquetOutput(folder, kinds[name], group_size_bytes_min=ROW_GROUP_SIZE_BYTES))
                for name, folder in folders.items()
            }
            for group in chain.from_iterable(_pieces(group, ROW_GROUP_SIZE_BYTES) for group in groups):
                for name, rows in _rows(group, with_silver=bool(outputs.keys() - {BRONZE})):
                    if name in outputs:
                        outputs[name].write(rows)
            made = {name: output.finish() for name, output in outputs.items()}
        for name, file in made.items():
            if file is not None:
                yield pa.RecordBatch.from_arrays([text_column([name]), *file_columns(file)], ["table", *FILE_NAMES])

    found: dict[str, list[ParquetFile]] = {name: [] for name in folders}
    for row in bronze.mapInArrow(write, f"table string, {FILE_COLUMNS}").collect():
        told = row.asDict()
        found[told.pop("table")].append(ParquetFile(**told))
    return found


def _pieces(group: pa.RecordBatch, size_bytes: int) -> Iterator[pa.RecordBatch]:
    """Spark's groups have up to 10,000 batches; as one row group they would be in memory several times."""
    step = max(1, group.num_rows * size_bytes // max(1, group.nbytes))
    for first in range(0, group.num_rows, step):
        yield group.slice(first, step)


def _rows(batches: pa.RecordBatch, *, with_silver: bool) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows that these batches make, and the table of each."""
    yield BRONZE, batches
    if with_silver:
        for records in silver.records_in(batches):
            yield RECORDS, records
            yield CONTROL, silver.control_in(records)
