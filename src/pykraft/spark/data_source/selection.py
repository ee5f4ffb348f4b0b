"""What a query wants of the rows: some of the columns, and only batches that may hold a wanted row.

The filters that Spark hands to the source become bounds of what is read. A filter that no bound expresses costs nothing
but time. Timestamps only bound from below: a header has the largest timestamp of a batch, not the smallest.

Invariant: a batch is left out only if its header proves that no row of it is wanted, and Spark evaluates the query's
filters again, so the result is the same without this.

Source: PySpark's ``DataSourceReader.pushFilters`` and ``Filter`` (4.1); Spark's Kafka source, which leaves out control
records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from math import floor
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual
from pyspark.sql.types import StructType

from pykraft.spark.data_source.headers import Headers
from pykraft.spark.data_source.options import SourceOptions
from pykraft.spark.data_source.schema import arrow_of, arrow_schema, check_columns
from pykraft.spark.data_source.splits import EVERYTHING, Bounds
from pykraft.types import Epoch, Offset


def bounds_of(filters: Iterable[Filter]) -> Bounds:
    """The bounds that all of these filters together allow."""
    bounds = EVERYTHING
    for one in filters:
        match one:
            case In(attribute=(str() as column,), value=values) if values:
                bounds = _within(bounds, column, values)
            case EqualTo(attribute=(str() as column,), value=value):
                bounds = _within(bounds, column, [value])
            case GreaterThan(attribute=(str() as column,), value=value):
                # A timestamp has microseconds, so "after" is the same bound as "at or after".
                least = value + 1 if type(value) is int else value
                bounds = _from(bounds, column, least)
            case GreaterThanOrEqual(attribute=(str() as column,), value=value):
                bounds = _from(bounds, column, value)
            case LessThan(attribute=(str() as column,), value=value) if type(value) is int:
                bounds = _up_to(bounds, column, value - 1)
            case LessThanOrEqual(attribute=(str() as column,), value=value):
                bounds = _up_to(bounds, column, value)
    return bounds


def _within(bounds: Bounds, column: str, values: Iterable[object]) -> Bounds:
    listed = list(values)
    texts = [each for each in listed if isinstance(each, str)]
    if column == "replica" and len(texts) == len(listed):
        known = frozenset(texts)
        return replace(bounds, replicas=known if bounds.replicas is None else bounds.replicas & known)
    numbers = [each for each in listed if type(each) is int]
    if numbers and len(numbers) == len(listed):
        return _up_to(_from(bounds, column, min(numbers)), column, max(numbers))
    times = [each for each in listed if isinstance(each, datetime)]
    return _from(bounds, column, min(times)) if times and len(times) == len(listed) else bounds


def _from(bounds: Bounds, column: str, least: object) -> Bounds:
    match column, least:
        case "offset", int():
            return replace(bounds, offset_min=Offset(max(bounds.offset_min, least)))
        case "epoch", int():
            return replace(bounds, epoch_min=Epoch(max(bounds.epoch_min, least)))
        case "timestamp", datetime() if least.tzinfo is not None:
            least_ms = floor(least.timestamp() * 1_000)
            return replace(bounds, timestamp_ms_min=max(bounds.timestamp_ms_min, least_ms))
    return bounds


def _up_to(bounds: Bounds, column: str, most: object) -> Bounds:
    match column, most:
        case "offset", int():
            return replace(bounds, offset_end=Offset(min(bounds.offset_end, most + 1)))
        case "epoch", int():
            return replace(bounds, epoch_max=Epoch(min(bounds.epoch_max, most)))
    return bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The columns, in the order of ``schema``, and what batches may hold wanted rows."""

    schema: pa.Schema
    bounds: Bounds = EVERYTHING
    leaves_out_control: bool = False

    def wanted(self, headers: Headers) -> np.ndarray:
        """Which batches may hold a wanted row."""
        epochs, bounds = headers.column("epoch"), self.bounds
        are_wanted = (bounds.epoch_min <= epochs) & (epochs <= bounds.epoch_max)
        are_wanted &= headers.column("max_timestamp") >= bounds.timestamp_ms_min
        return are_wanted & ~headers.are_control if self.leaves_out_control else are_wanted

    def has(self, *names: str) -> bool:
        """Whether one of these columns is wanted."""
        return any(name in self.schema.names for name in names)


def select(columns: StructType, options: SourceOptions) -> Selection:
    """What a query of these columns wants. Errors: UsageError for columns that the source does not have."""
    check_columns(columns, options)
    return Selection(schema=arrow_of(columns), leaves_out_control=options.columns != "pykraft")


EVERY_RECORD: Final = Selection(schema=arrow_schema("records"))
EVERY_BATCH: Final = Selection(schema=arrow_schema("batches"))
