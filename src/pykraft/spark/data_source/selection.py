"""What a query wants of the rows: some of the columns, and only batches that may hold a wanted row.

Invariant: a batch is left out only if its header proves that no row of it is wanted. Spark then evaluates the query's
filters on the rows that are left, so that the result is the same without this.

Source: PySpark's ``DataSourceReader.pushFilters``; Spark's Kafka source, which leaves out control records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from pykraft.spark.data_source.bounds import EPOCH_MAX, EPOCH_MIN, TIMESTAMP_MS_MIN, Bounds
from pykraft.spark.data_source.headers.columns import Headers
from pykraft.spark.data_source.options import SourceOptions
from pykraft.spark.data_source.schema import arrow_of, arrow_schema, check_columns
from pykraft.types import Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The columns, in the order of ``schema``, and the range of batches; all bounds are inclusive."""

    schema: pa.Schema
    epoch_min: Epoch = EPOCH_MIN
    epoch_max: Epoch = EPOCH_MAX
    timestamp_ms_min: int = TIMESTAMP_MS_MIN
    leaves_out_control: bool = False

    def wanted(self, headers: Headers) -> np.ndarray:
        """Which batches may hold a wanted row."""
        epochs = headers.column("epoch")
        are_wanted = (self.epoch_min <= epochs) & (epochs <= self.epoch_max)
        are_wanted &= headers.column("max_timestamp") >= self.timestamp_ms_min
        return are_wanted & ~headers.are_control if self.leaves_out_control else are_wanted

    def within(self, bounds: Bounds) -> Selection:
        """The selection within these bounds."""
        return replace(
            self,
            epoch_min=max(bounds.epoch_min, self.epoch_min),
            epoch_max=min(bounds.epoch_max, self.epoch_max),
            timestamp_ms_min=max(bounds.timestamp_ms_min, self.timestamp_ms_min),
        )

    def has(self, *names: str) -> bool:
        """Whether one of these columns is wanted."""
        return any(name in self.schema.names for name in names)


def select(columns: StructType, options: SourceOptions) -> Selection:
    """What a query of these columns wants. Errors: UsageError for columns that the source does not have."""
    check_columns(columns, options)
    return Selection(schema=arrow_of(columns), leaves_out_control=options.columns != "pykraft")


EVERY_RECORD: Final = Selection(schema=arrow_schema("records"))
EVERY_BATCH: Final = Selection(schema=arrow_schema("batches"))
