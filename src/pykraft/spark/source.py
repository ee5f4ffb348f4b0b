"""``spark.read.format("pykraft")`` and ``spark.readStream.format("pykraft")``: a quorum's log as rows.

It reads log directories, of one or many replicas, or a live quorum; `pykraft.spark.data_source.options` has the
options, `pykraft.spark.data_source.schema` the columns. Every batch's CRC is checked; a log ends where a start of its
node would end it.

Source: PySpark ``DataSource`` (SPARK-44076) and its stream reader.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pykraft.errors import UsageError
from pykraft.spark.data_source.file_plan import check_names, plan_batch
from pykraft.spark.data_source.file_stream import FilesStreamReader
from pykraft.spark.data_source.files import find_replicas
from pykraft.spark.data_source.options import SourceOptions, parse_options
from pykraft.spark.data_source.read_split import SplitPartition, read_split
from pykraft.spark.data_source.schema import BATCHES, RECORDS
from pykraft.spark.data_source.tracebacks import rows_without_traceback, without_traceback


class FilesReader(DataSourceReader):
    """Cuts logs into splits on the driver and decodes them on the workers."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    @without_traceback
    def partitions(self) -> Sequence[InputPartition]:
        """See `DataSourceReader`."""
        replicas = find_replicas(self._options.patterns)
        check_names(replicas, self._options)
        return [SplitPartition(split) for replica in replicas for split in plan_batch(replica, self._options).splits]

    @rows_without_traceback
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `DataSourceReader`; keeps no state between partitions."""
        return read_split(partition, self._options)


class PykraftDataSource(DataSource):
    """The source ``pykraft``."""

    @classmethod
    def name(cls) -> str:
        """See `DataSource`."""
        return "pykraft"

    @without_traceback
    def schema(self) -> StructType:
        """See `DataSource`. Errors: UsageError for wrong options."""
        return BATCHES if parse_options(self.options).rows == "batches" else RECORDS

    @without_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        """See `DataSource`. Errors: UsageError for wrong options, and for a schema other than ours."""
        options = self._checked(schema)
        if options.controllers:
            # Its imports, the whole client, take longer than all others: a worker that reads directories does without.
            from pykraft.spark.data_source.live_source import LiveReader

            return LiveReader(options)
        return FilesReader(options)

    @without_traceback
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """See `DataSource`. Errors: as `reader`."""
        options = self._checked(schema)
        if options.controllers:
            from pykraft.spark.data_source.live_source import LiveStreamReader

            return LiveStreamReader(options)
        return FilesStreamReader(options)

    def _checked(self, schema: StructType) -> SourceOptions:
        options = parse_options(self.options)
        wanted = BATCHES if options.rows == "batches" else RECORDS
        if schema.names != wanted.names:
            raise UsageError(
                "the source pykraft defines its own columns: leave out .schema(…), and .select(…) what you want"
            )
        return options


def register(spark: SparkSession) -> None:
    """Register ``format("pykraft")`` with this session.

    The workers of a local session then run the Python of this program, unless ``PYSPARK_PYTHON`` names one.
    """
    _run_workers_with_this_python(spark)
    spark.dataSource.register(PykraftDataSource)


def _run_workers_with_this_python(spark: SparkSession) -> None:
    context = getattr(spark, "sparkContext", None)
    if context is None or "PYSPARK_PYTHON" in os.environ or not context.master.startswith("local"):
        # A session of Spark Connect has no context, and a cluster's machines have a Python of their own.
        return
    # Spark would start the python3 of the PATH. If the program's environment is not activated, that is another one,
    # without this package, Arrow or NumPy.
    context.pythonExec = sys.executable
