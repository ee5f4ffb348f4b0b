"""``format("pykraft")`` for reading and writing: a quorum's log as rows, and rows as records of a quorum.

It reads log directories or a live quorum; `pykraft.spark.data_source.options` has the options,
`pykraft.spark.data_source.selection` the columns, and `pykraft.spark.sink` writes. Every batch's CRC is checked; a log
ends where a start of its node would end it, and an end that nobody can judge is an error.

Source: PySpark ``DataSource`` (SPARK-44076), its stream reader and its writers.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from pykraft.spark.data_source.decode import partitions_of, read_split
from pykraft.spark.data_source.file_plan import check_bounds, find_replicas, plan_batch, split_size_bytes
from pykraft.spark.data_source.file_stream import FilesStreamReader
from pykraft.spark.data_source.options import OF_LOG, SourceOptions, parse_options, table_options
from pykraft.spark.data_source.selection import bounds_of, columns_for, select, spark_columns
from pykraft.spark.error_text import rows_without_traceback, without_traceback
from pykraft.spark.spark_versions import (
    HAS_SOURCES,
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)


class LogReader(DataSourceReader):
    """A query over log directories, or over what is committed in a live quorum when it starts.

    The driver cuts it into splits, and the workers decode them.
    """

    def __init__(self, options: SourceOptions, columns: StructType | None = None) -> None:
        """Without ``columns`` it has all. Errors: UsageError for columns that the source does not have."""
        self._options = options
        self._selection = select(columns or columns_for(options), options)

    @without_traceback
    def partitions(self) -> Sequence[InputPartition]:
        """See `DataSourceReader`. Errors: those of the plan."""
        options, bounds = self._options, self._selection.bounds
        if options.controllers:
            # Its imports, the whole client, take longer than all others: who reads directories does without.
            from pykraft.spark.data_source.live import plan_query

            return plan_query(options, bounds)
        replicas = find_replicas(options.patterns)
        check_bounds(replicas, options)
        wanted = [replica for replica in replicas if bounds.has_replica(replica.name)]
        size_bytes = split_size_bytes(wanted, options)
        plans = (plan_batch(each, options, size_bytes=size_bytes, bounds=bounds) for each in wanted)
        return partitions_of([split for plan in plans for split in plan.splits], options)

    @rows_without_traceback
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `DataSourceReader`; keeps no state between partitions."""
        if self._options.controllers:
            from pykraft.spark.data_source.live import fetch_rows

            return fetch_rows(partition, self._options, self._selection)
        return read_split(partition, self._options, self._selection)


class FilteringLogReader(LogReader):
    """The same, for a session whose flag ``spark.sql.python.filterPushdown.enabled`` is on."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """See `DataSourceReader`; Spark evaluates all of them again."""
        self._selection = replace(self._selection, bounds=bounds_of(filters))
        return filters


TABLE: Final = "pykraft.options"
"""In the metadata of the first column of a table of Spark's catalog: the options of the table, in JSON."""


def columns_with(options: Mapping[str, str], columns: StructType) -> StructType:
    """Columns that keep the options of their table, which Spark does not hand over when it reads the table."""
    first, *others = columns
    kept = StructField(first.name, first.dataType, first.nullable, {TABLE: json.dumps(options)})
    return StructType([kept, *others])


def options_for(given: Mapping[str, str], columns: StructType) -> dict[str, str]:
    """A query's own options, and those of the table that it reads, if it reads one; its own come first."""
    own = {name.lower(): value for name, value in given.items()}
    kept = next((field.metadata[TABLE] for field in columns if TABLE in field.metadata), None)
    return own if kept is None or OF_LOG & own.keys() else json.loads(kept) | own


class PykraftDataSource(DataSource):
    """The source and the sink ``pykraft``."""

    @classmethod
    def name(cls) -> str:
        return "pykraft"

    @without_traceback
    def schema(self) -> StructType:
        """See `DataSource`. Errors: UsageError for wrong options."""
        of_table = table_options(self.options)
        columns = columns_for(parse_options(of_table or self.options))
        return columns if of_table is None else columns_with(of_table, columns)

    @without_traceback
    def reader(self, schema: StructType | pa.Schema) -> DataSourceReader:
        """See `DataSource`. Errors: UsageError for wrong options, and for columns that the source does not have."""
        columns = spark_columns(schema)
        options = parse_options(options_for(self.options, columns))
        return (FilteringLogReader if options.pushes_filters else LogReader)(options, columns)

    @without_traceback
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """See `DataSource`. Errors: as `reader`."""
        options = parse_options(options_for(self.options, schema))
        if options.controllers:
            from pykraft.spark.data_source.live import LiveStreamReader

            return LiveStreamReader(options, schema)
        return FilesStreamReader(options, schema)

    @without_traceback
    def writer(self, schema: StructType | pa.Schema, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        """See `DataSource`. Errors: UsageError for wrong options or columns, and for other modes than append."""
        # Neither the sink nor its imports are of use to whoever reads.
        from pykraft.spark.sink.writers import batch_writer

        return batch_writer(self.options, spark_columns(schema), is_overwrite=overwrite)

    @without_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802 - Spark's
        """See `DataSource`. Errors: as `writer`."""
        from pykraft.spark.sink.writers import stream_writer

        return stream_writer(self.options, schema, is_overwrite=overwrite)


def read(spark: SparkSession, options: Mapping[str, str], columns: StructType | None = None) -> DataFrame:
    """A query as ``spark.read.format("pykraft").options(…)`` makes it, for Spark 3.5, which has no sources in Python.

    Without ``columns`` it has all. The plan is made at once. Errors: as `LogReader`.
    """
    parsed = parse_options(options)
    reader = LogReader(parsed, columns)
    partitions = list(reader.partitions()) or [InputPartition(None)]
    _run_workers_with_this_python(spark)

    def rows(groups: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for group in groups:
            for task in group.column("id").to_pylist():
                yield from reader.read(partitions[task])

    tasks = spark.range(0, len(partitions), 1, len(partitions))
    return tasks.mapInArrow(rows, columns or columns_for(parsed))


def register(spark: SparkSession) -> None:
    """Register ``format("pykraft")`` with this session.

    The workers of a local session then run the Python of this program, unless ``PYSPARK_PYTHON`` names one.
    """
    _run_workers_with_this_python(spark)
    if not HAS_SOURCES:
        return  # Spark 3.5: `read` is there
    try:
        spark.dataSource.register(PykraftDataSource)
    except AnalysisException as error:
        # Spark 4.0 has found it by itself, and refuses a second one.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def _run_workers_with_this_python(spark: SparkSession) -> None:
    context = getattr(spark, "sparkContext", None)
    if context is None or "PYSPARK_PYTHON" in os.environ or not context.master.startswith("local"):
        # A session of Spark Connect has no context, and a cluster's machines have a Python of their own.
        return
    # Spark would start the python3 of the PATH. If the program's environment is not activated, that is another one,
    # without this package, Arrow or NumPy.
    context.pythonExec = sys.executable
