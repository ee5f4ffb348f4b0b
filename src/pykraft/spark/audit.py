"""Does the log hold what was acknowledged? Plain DataFrame functions, the same on any Spark.

Records are those of the workload: run id (8 bytes), epoch (int32), sequence (int64), random rest. The
journal says which of them were acknowledged at which offsets; it was kept outside of the nodes.

Source: the definitions of exactly-once checks in Jepsen's set and log tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from pykraft.client.journal import Acknowledged

HEAD_SIZE_BYTES = 20
ACKNOWLEDGED_SCHEMA = StructType(
    [
        StructField("run", StringType(), nullable=False),
        StructField("epoch", IntegerType(), nullable=False),
        StructField("first_sequence", LongType(), nullable=False),
        StructField("count", LongType(), nullable=False),
        StructField("base_offset", LongType(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was found. All but the last two are counts of records."""

    committed_records: int
    acknowledged: int
    spark_rows: int
    duplicates: int
    missing: int
    out_of_order: int
    leader_epochs: int
    replicas_identical: bool

    @property
    def is_clean(self) -> bool:
        """True when every acknowledged record is there once and in order, the same on all replicas."""
        faults = self.duplicates + self.missing + self.out_of_order
        return faults == 0 and self.replicas_identical and self.acknowledged > 0


def payload_columns(records: DataFrame) -> DataFrame:
    """Data records with what the workload wrote into them.

    In: ``is_control`` boolean, ``value`` binary, others kept. Out: the same without control records and
    without values that are too short, plus ``run`` string (hex), ``claim_epoch`` int, ``sequence`` bigint.
    """

    def number(first_byte: int, size_bytes: int, kind: str) -> Column:
        return F.conv(F.hex(F.substring("value", first_byte, size_bytes)), 16, 10).cast(kind)

    return records.where(~F.col("is_control") & (F.length("value") >= HEAD_SIZE_BYTES)).select(
        "*",
        F.lower(F.hex(F.substring("value", 1, 8))).alias("run"),
        number(9, 4, "int").alias("claim_epoch"),
        number(13, 8, "bigint").alias("sequence"),
    )


def acknowledged_frame(spark: SparkSession, acknowledged: Iterable[Acknowledged]) -> DataFrame:
    """The journal's acknowledgements, one row a record.

    Out: ``run`` string, ``claim_epoch`` int, ``sequence`` bigint, ``offset`` bigint.
    """
    rows = [
        (ack.run.hex(), int(ack.epoch), ack.first_sequence, ack.count, int(ack.base_offset)) for ack in acknowledged
    ]
    ranges = spark.createDataFrame(rows, ACKNOWLEDGED_SCHEMA)
    step = F.explode(F.sequence(F.lit(0).cast("bigint"), F.col("count") - 1))
    return ranges.select("run", "epoch", "first_sequence", "base_offset", step.alias("step")).select(
        "run",
        F.col("epoch").alias("claim_epoch"),
        (F.col("first_sequence") + F.col("step")).alias("sequence"),
        (F.col("base_offset") + F.col("step")).alias("offset"),
    )


def count_duplicates(payloads: DataFrame) -> int:
    """Records beyond the first with the same ``run``, ``claim_epoch`` and ``sequence``."""
    groups = payloads.groupBy("run", "claim_epoch", "sequence").agg(F.count("*").alias("copies"))
    return _number(groups.agg(F.sum(F.col("copies") - 1)))


def count_missing(payloads: DataFrame, acknowledged: DataFrame) -> int:
    """Acknowledged records that are not at the offset where they were acknowledged."""
    key = ["run", "claim_epoch", "sequence", "offset"]
    return acknowledged.join(payloads.select(key), on=key, how="left_anti").count()


def count_out_of_order(payloads: DataFrame) -> int:
    """Records whose sequence is not above that of the record before it, within a claim of leadership."""
    before = Window.partitionBy("run", "claim_epoch").orderBy("offset")
    steps = payloads.select("sequence", F.lag("sequence").over(before).alias("previous"))
    return steps.where(F.col("sequence") <= F.col("previous")).count()


def are_identical(records: DataFrame) -> bool:
    """True when all replicas hold the same records at the same offsets, in the same batches, to the same end.

    In: the columns of the source. Compares place in the stream, epoch, timestamp, key and value.
    """
    replicas = records.select("replica").distinct().count()
    content = F.xxhash64("epoch", "batch_size", "timestamp", "is_control", "key", "value")
    by_offset = records.groupBy("offset").agg(
        F.count("*").alias("copies"),
        F.count_distinct("replica").alias("replicas"),
        F.count_distinct(content).alias("kinds"),
    )
    differs = (F.col("copies") != replicas) | (F.col("replicas") != replicas) | (F.col("kinds") != 1)
    return by_offset.where(differs).isEmpty()


def audit(records: DataFrame, acknowledged: DataFrame, *, until_offset: int) -> Audit:
    """All checks at once. In: the source's rows of all replicas; `acknowledged_frame`.

    Order, duplicates and gaps are looked for in the most up-to-date replica. The others must equal it up to
    ``until_offset`` (exclusive), where they had all arrived: behind it, one that was stopped first is shorter,
    or holds what was never committed. Committed is what was acknowledged and all before it.
    """
    ends = records.groupBy("replica").agg(F.max("epoch").alias("epoch"), F.max("offset").alias("last_offset"))
    longest = max((row["epoch"], row["last_offset"], row["replica"]) for row in ends.collect())[2]
    last_acknowledged = _number(acknowledged.agg(F.max("offset")))
    common = records.where(F.col("offset") < until_offset)
    payloads = payload_columns(records.where(F.col("replica") == longest)).cache()
    data = records.where((F.col("replica") == longest) & ~F.col("is_control"))
    result = Audit(
        committed_records=data.where(F.col("offset") <= last_acknowledged).count(),
        acknowledged=acknowledged.count(),
        spark_rows=data.count(),
        duplicates=count_duplicates(payloads),
        missing=count_missing(payloads, acknowledged),
        out_of_order=count_out_of_order(payloads),
        leader_epochs=records.where(F.col("replica") == longest).select("epoch").distinct().count(),
        replicas_identical=are_identical(common),
    )
    payloads.unpersist()
    return result


def _number(frame: DataFrame) -> int:
    row = frame.first()
    return int(row[0] or 0) if row is not None else 0
