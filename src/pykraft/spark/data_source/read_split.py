"""Reads a Spark task's piece in parts and returns its rows.

Invariant: no state is kept between partitions, and one part is in memory at a time.

Source: PySpark ``DataSourceReader.read``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pykraft.errors import CorruptionError
from pykraft.spark.data_source.batches import batches_of
from pykraft.spark.data_source.decode import records_of
from pykraft.spark.data_source.options import SourceOptions
from pykraft.spark.data_source.row_location import Damage, damage_row
from pykraft.spark.data_source.splits import Piece, judged, read_parts


class PiecePartition(InputPartition):
    """The part of a log that one task reads."""

    def __init__(self, piece: Piece) -> None:
        super().__init__(piece.path)
        self.piece = piece


def read_piece(partition: InputPartition, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The rows of one piece. Errors: CorruptionError, unless damage is to be marked; StorageError."""
    if not isinstance(partition, PiecePartition):
        return  # without partitions, Spark reads an empty placeholder
    piece = partition.piece
    if piece.damage is not None:
        size_bytes = piece.end_position - piece.position
        damage = Damage(position=0, size_bytes=size_bytes, offset=piece.start_offset, text=piece.damage)
        yield damage_row(piece, damage, options.rows)
        return
    rows_of = batches_of if options.rows == "batches" else records_of
    for part in read_parts(piece):
        try:
            yield from rows_of(part.piece, part.data, tolerant=options.tolerant, batches=part.batches)
        except CorruptionError as problem:
            raise judged(piece, problem) from problem
