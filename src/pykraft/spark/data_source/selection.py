"""The columns of the source ``pykraft``, and what a query wants: some of them, and batches that may hold a wanted row.

`docs/spark-reference.md` says what each column means: of records, of batches (``rows`` = ``batches``), of Kafka's
metadata records (``columns`` = ``metadata``), or those of Spark's Kafka source (``columns`` = ``kafka``). The filters
that Spark hands to the source become bounds of what is read. Timestamps only bound from below: a header has the largest
timestamp of a batch, not the smallest.

Invariant: a batch is left out only if its header proves that no row of it is wanted; Spark evaluates the filters again.

Source: PySpark's ``DataSourceReader.pushFilters``; Spark's Kafka integration guide; KIP-98, KIP-595, KIP-631.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from math import floor
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pykraft.errors import UsageError
from pykraft.spark.data_source.headers import Headers
from pykraft.spark.data_source.options import SourceOptions
from pykraft.spark.data_source.splits import EVERYTHING, Bounds
from pykraft.spark.spark_versions import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    arrow_schema_of,
)
from pykraft.types import Epoch, Offset

_TYPES = {
    "array<int>": ArrayType(IntegerType()),
    "array<struct<key:string,value:binary>>": ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    ),
    "bigint": LongType(),
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "string": StringType(),
    "timestamp": TimestampType(),
}


def columns_of(ddl: str) -> StructType:
    """Columns in Spark's DDL, such as ``epoch int, offset bigint not null``.

    Spark's own parser runs in a JVM, which tasks and a starting command do not have.
    """
    fields = (column.split(maxsplit=2) for column in ddl.split(", "))
    return StructType([StructField(name, _TYPES[kind], nullable=not bound) for name, kind, *bound in fields])


_PLACE = "replica string, segment string, position bigint, batch_size int not null"
RECORDS = columns_of(
    f"{_PLACE}, offset bigint not null, epoch int, timestamp timestamp, is_control boolean, control_type string, "
    "key binary, value binary, corrupt string"
)
BATCHES = columns_of(
    f"{_PLACE}, base_offset bigint not null, last_offset bigint, epoch int, base_timestamp timestamp, "
    "max_timestamp timestamp, records_count int, is_control boolean, compression string, crc bigint, content binary, "
    "corrupt string"
)
KAFKA = columns_of(
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
HEADERS = columns_of("headers array<struct<key:string,value:binary>>")
METADATA = columns_of(
    "replica string, offset bigint not null, epoch int, timestamp timestamp, type string, version int, data string, "
    "problem string, corrupt string"
)
_OF_RECORDS = {"pykraft": RECORDS, "kafka": KAFKA, "metadata": METADATA}


def columns_for(options: SourceOptions) -> StructType:
    """The columns of a query that names none."""
    columns = BATCHES if options.rows == "batches" else _OF_RECORDS[options.columns]
    return StructType([*columns, *HEADERS]) if options.includes_headers else columns


def spark_columns(given: StructType | pa.Schema) -> StructType:
    """Columns in Spark's types. Spark hands a source its own types; other engines hand it Arrow's."""
    return given if isinstance(given, StructType) else from_arrow_schema(given, prefer_timestamp_ntz=False)


def check_columns(wanted: StructType, options: SourceOptions) -> None:
    """Refuse columns that the source does not have. Errors: UsageError."""
    if options.rows == "batches":
        offered = {field.name: field.dataType for field in BATCHES}
    else:
        offered = {field.name: field.dataType for columns in (*_OF_RECORDS.values(), HEADERS) for field in columns}
    for field in wanted:
        if field.name not in offered:
            raise UsageError(f"the source pykraft has no column {field.name}; it has {', '.join(offered)}")
        if field.dataType != offered[field.name]:
            kinds = f"{offered[field.name].simpleString()}, not {field.dataType.simpleString()}"
            raise UsageError(f"the column {field.name} of the source pykraft is a {kinds}")
    if len(set(wanted.names)) < len(wanted.names) or not wanted.names:
        raise UsageError("give .schema(…) at least one column of the source pykraft, and each once")
    if options.tolerant and "corrupt" not in wanted.names:
        raise UsageError("with the option corrupt = mark the columns must include corrupt, which reports damage")


@cache
def arrow_schema(rows: str) -> pa.Schema:
    """The columns of ``records`` or ``batches`` as Spark wants them from a Python source, field by field."""
    return arrow_of(BATCHES if rows == "batches" else RECORDS)


def arrow_of(columns: StructType) -> pa.Schema:
    """These columns as Spark wants them from a Python source."""
    return arrow_schema_of(columns)


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
