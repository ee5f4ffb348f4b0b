"""The columns of the source ``pykraft``, for Spark and for Arrow.

`docs/spark.md` says what each means: of records, of batches (``rows`` = ``batches``), and of the records of Kafka's
metadata log (``columns`` = ``metadata``). With ``columns`` = ``kafka`` a row is a data record in the columns of Spark's
Kafka source; ``timestampType`` is 0 for the record's own time, 1 for the time of the append. A query may name some
columns only, in its order; those of a record and of the other two tables mix.

Source: Spark's Kafka integration guide; KIP-98 (record batches), KIP-595 (control records), KIP-631 (metadata records).
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
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
from pykraft.spark.data_source.options import SourceOptions

_TYPES = {
    "array<int>": ArrayType(IntegerType()),
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
METADATA = columns_of(
    "replica string, offset bigint not null, epoch int, timestamp timestamp, type string, version int, data string, "
    "problem string, corrupt string"
)
_OF_RECORDS = {"pykraft": RECORDS, "kafka": KAFKA, "metadata": METADATA}


def columns_for(options: SourceOptions) -> StructType:
    """The columns of a query that names none."""
    return BATCHES if options.rows == "batches" else _OF_RECORDS[options.columns]


def spark_columns(given: StructType | pa.Schema) -> StructType:
    """Columns in Spark's types. Spark hands a source its own types; other engines hand it Arrow's."""
    return given if isinstance(given, StructType) else from_arrow_schema(given, prefer_timestamp_ntz=False)


def check_columns(wanted: StructType, options: SourceOptions) -> None:
    """Refuse columns that the source does not have. Errors: UsageError."""
    if options.rows == "batches":
        offered = {field.name: field.dataType for field in BATCHES}
    else:
        offered = {field.name: field.dataType for columns in _OF_RECORDS.values() for field in columns}
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
    return to_arrow_schema(columns, timezone="UTC")
