"""The columns of the source ``pykraft``, for Spark and for Arrow.

| column | type | meaning |
|---|---|---|
| replica | string | whose log |
| segment | string | file name |
| position | bigint | where the record's batch begins in the segment, bytes |
| batch_size | int | bytes of that batch, header included |
| offset | bigint | of the record |
| epoch | int | of the leader that appended it |
| timestamp | timestamp | of the append |
| is_control | boolean | written by the quorum itself |
| control_type | string | LeaderChange, KRaftVersion, …; null for data |
| key | binary | null in KRaft's own data records |
| value | binary | |

Source: KIP-98 (record batches), KIP-595 (control records).
"""

from __future__ import annotations

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

SCHEMA = StructType(
    [
        StructField("replica", StringType(), nullable=False),
        StructField("segment", StringType(), nullable=False),
        StructField("position", LongType(), nullable=False),
        StructField("batch_size", IntegerType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
        StructField("epoch", IntegerType(), nullable=False),
        StructField("timestamp", TimestampType(), nullable=False),
        StructField("is_control", BooleanType(), nullable=False),
        StructField("control_type", StringType(), nullable=True),
        StructField("key", BinaryType(), nullable=True),
        StructField("value", BinaryType(), nullable=True),
    ]
)


def arrow_schema() -> pa.Schema:
    """The same columns as Spark wants them from a Python source, field by field."""
    return to_arrow_schema(SCHEMA, timezone="UTC")
