"""``spark.read.format("pykraft")``: log directories as rows.

Options: ``path``, a comma list of partition directories, segment files, or globs of them, of one or many replicas; or
``paths``, the same as a JSON array, for names with a comma (what `load` makes of a list). Every batch's CRC is checked;
a torn or preallocated tail of the newest segment is not read. The columns are in `pykraft.spark.schema`.

Source: PySpark ``DataSource`` (SPARK-44076).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pykraft.errors import UsageError
from pykraft.spark.decode import rows_of
from pykraft.spark.files import Piece, find_segments, pieces_of, read_parts
from pykraft.spark.schema import SCHEMA


class PiecePartition(InputPartition):
    """The part of a log that one task reads."""

    def __init__(self, piece: Piece) -> None:
        super().__init__(piece.path)
        self.piece = piece


class LogReader(DataSourceReader):
    """Cuts logs into pieces on the driver, decodes them on the workers."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns

    def partitions(self) -> Sequence[InputPartition]:
        """See `DataSourceReader`."""
        return [
            PiecePartition(piece)
            for replica, segments in find_segments(self._patterns).items()
            for piece in pieces_of(replica, segments)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `DataSourceReader`; keeps no state between partitions."""
        if not isinstance(partition, PiecePartition):
            return  # where there is no partition, Spark reads one without a value
        for part, data in read_parts(partition.piece):
            yield from rows_of(part, data)


class PykraftDataSource(DataSource):
    """The source ``pykraft``."""

    @classmethod
    def name(cls) -> str:
        """See `DataSource`."""
        return "pykraft"

    def schema(self) -> StructType:
        """See `DataSource`."""
        return SCHEMA

    def reader(self, schema: StructType) -> LogReader:
        """See `DataSource`. Errors: UsageError without the option ``path`` or ``paths``."""
        del schema
        return LogReader(_patterns(self.options))


def _patterns(options: Mapping[str, str]) -> list[str]:
    """What the options say. Errors: UsageError when they say nothing, or ``paths`` is no list of texts."""
    path, paths = options.get("path", ""), options.get("paths", "")
    patterns = [part.strip() for part in path.split(",")]
    if paths:
        try:
            listed = json.loads(paths)
        except ValueError:
            listed = None
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            raise UsageError(f'the option paths must be a JSON array of texts such as ["a", "b"], found {paths}')
        patterns += listed
    patterns = [pattern for pattern in patterns if pattern]
    if not patterns:
        raise UsageError('the source pykraft needs .option("path", …): partition directories or globs of them')
    return patterns


def register(spark: SparkSession) -> None:
    """Make ``format("pykraft")`` known to this session."""
    spark.dataSource.register(PykraftDataSource)
