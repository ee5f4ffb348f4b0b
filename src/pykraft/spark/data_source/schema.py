"""The columns of the source ``pykraft``, for Spark and for Arrow.

A row is a record (``rows`` = ``records``, the default):

| column | type | meaning |
|---|---|---|
| replica | string | name of the replica; null for a live quorum |
| segment | string | file name; null for a live quorum |
| position | bigint | byte position of the record's batch in the segment; null for a live quorum |
| batch_size | int | bytes of that batch, header included |
| offset | bigint | of the record |
| epoch | int | of the leader that appended it |
| timestamp | timestamp | of the append |
| is_control | boolean | written by the quorum itself |
| control_type | string | LeaderChange, KRaftVersion, …; null for data |
| key | binary | null in KRaft's own data records |
| value | binary | |
| corrupt | string | null, or what is wrong with the bytes; then only position, size and offset have values |

or a record batch (``rows`` = ``batches``):

| column | type | meaning |
|---|---|---|
| replica, segment, position | | as above |
| batch_size | int | bytes of the batch, header included |
| base_offset | bigint | of the first record |
| last_offset | bigint | of the last record (inclusive) |
| epoch | int | of the leader that appended it |
| base_timestamp, max_timestamp | timestamp | |
| records_count | int | |
| is_control | boolean | |
| compression | string | none, gzip, snappy, lz4, zstd |
| crc | bigint | CRC-32C as the header has it; it was compared |
| content | binary | the whole batch as it is on disk |
| corrupt | string | as above |

Source: KIP-98 (record batches), KIP-595 (control records).
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

PLACE = (
    StructField("replica", StringType()),
    StructField("segment", StringType()),
    StructField("position", LongType()),
    StructField("batch_size", IntegerType(), nullable=False),
)
RECORDS = StructType(
    [
        *PLACE,
        StructField("offset", LongType(), nullable=False),
        StructField("epoch", IntegerType()),
        StructField("timestamp", TimestampType()),
        StructField("is_control", BooleanType()),
        StructField("control_type", StringType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("corrupt", StringType()),
    ]
)
BATCHES = StructType(
    [
        *PLACE,
        StructField("base_offset", LongType(), nullable=False),
        StructField("last_offset", LongType()),
        StructField("epoch", IntegerType()),
        StructField("base_timestamp", TimestampType()),
        StructField("max_timestamp", TimestampType()),
        StructField("records_count", IntegerType()),
        StructField("is_control", BooleanType()),
        StructField("compression", StringType()),
        StructField("crc", LongType()),
        StructField("content", BinaryType()),
        StructField("corrupt", StringType()),
    ]
)


@cache
def arrow_schema(rows: str) -> pa.Schema:
    """The columns of ``records`` or ``batches`` as Spark wants them from a Python source, field by field."""
    return to_arrow_schema(BATCHES if rows == "batches" else RECORDS, timezone="UTC")
