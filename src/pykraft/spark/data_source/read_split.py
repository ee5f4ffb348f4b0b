"""Reads a Spark task's split in chunks and returns its rows.

Invariant: no state is kept between partitions, and one chunk is in memory at a time.

Source: PySpark ``DataSourceReader.read``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pykraft.errors import CorruptionError
from pykraft.spark.data_source.batches import batches_of
from pykraft.spark.data_source.decode import records_of
from pykraft.spark.data_source.headers.columns import headers_of
from pykraft.spark.data_source.options import SourceOptions
from pykraft.spark.data_source.row_location import DamagedBytes, damage_row
from pykraft.spark.data_source.selection import Selection
from pykraft.spark.data_source.splits import Split, chunks_with, judged


class SplitPartition(InputPartition):
    """The chunk of a log that one task reads."""

    def __init__(self, split: Split) -> None:
        super().__init__(split.path)
        self.split = split


def read_split(partition: InputPartition, options: SourceOptions, selection: Selection) -> Iterator[pa.RecordBatch]:
    """The wanted rows of one split. Errors: CorruptionError, unless damage is to be marked; StorageError."""
    if not isinstance(partition, SplitPartition):
        return  # without partitions, Spark reads an empty placeholder
    split = partition.split
    if split.damage is not None:
        size_bytes = split.end_position - split.position
        damage = DamagedBytes(position=0, size_bytes=size_bytes, offset=split.start_offset, text=split.damage)
        yield damage_row(split, damage, selection.schema)
        return
    rows_of = batches_of if options.rows == "batches" else records_of
    for chunk in chunks_with(headers_of, split):
        try:
            yield from rows_of(
                chunk.split, chunk.data, tolerant=options.tolerant, headers=chunk.headers, selection=selection
            )
        except CorruptionError as problem:
            raise judged(split, problem) from problem
