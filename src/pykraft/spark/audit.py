"""Does the log hold what was acknowledged? Plain DataFrame functions, the same on any Spark.

Records are those of the workload: run id (8 bytes), epoch (int32), sequence (int64), random rest; big-endian. The
journal says which of them were acknowledged at which offsets; it was kept outside of the nodes.

Invariant: nothing that a log can hold stops an audit; what is not as it must be is counted. `client.journal_check`
asks the same without Spark, of bytes.

Source: the definitions of exactly-once checks in Jepsen's set and log tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from pykraft.client.journal import RUN_SIZE_BYTES, Acknowledged

HEAD_SIZE_BYTES = 20
NO_RUN = "00" * RUN_SIZE_BYTES
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


def fingerprints(records: DataFrame) -> DataFrame:
    """What the checks need of each record, small enough to be kept: they then read the files once.

    In: the columns of the source. Out: ``replica`` string, ``offset`` bigint, ``epoch`` int, ``is_control`` boolean,
    ``value`` binary (its first 20 bytes), ``content`` bigint (a hash of the record and of what its batch says of it).
    """
    content = F.xxhash64("epoch", "batch_size", "timestamp", "is_control", "key", "value")
    value = F.substring("value", 1, HEAD_SIZE_BYTES)
    return records.select("replica", "offset", "epoch", "is_control", value.alias("value"), content.alias("content"))


def payload_columns(records: DataFrame) -> DataFrame:
    """The records of the workload with what it wrote into them.

    In: ``is_control`` boolean, ``value`` binary, others kept. Out: the same plus ``run`` string (hex), ``claim_epoch``
    int, ``sequence`` bigint; without control records and without what is not the workload's: values that are too short,
    that begin with a run of zeros (Kafka's TestRaftServer writes such), or that no leader can have numbered.
    """

    def number(first_byte: int, size_bytes: int, kind: str) -> Column:
        return F.conv(F.hex(F.substring("value", first_byte, size_bytes)), 16, 10).try_cast(kind)

    return (
        records.where(~F.col("is_control") & (F.length("value") >= HEAD_SIZE_BYTES))
        .select(
            "*",
            F.lower(F.hex(F.substring("value", 1, RUN_SIZE_BYTES))).alias("run"),
            number(9, 4, "int").alias("claim_epoch"),
            number(13, 8, "bigint").alias("sequence"),
        )
        .where((F.col("run") != NO_RUN) & F.col("claim_epoch").isNotNull() & F.col("sequence").isNotNull())
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
    total = groups.agg(F.sum(F.col("copies") - 1)).collect()[0][0]
    return 0 if total is None else int(total)


def count_missing(payloads: DataFrame, acknowledged: DataFrame) -> int:
    """Acknowledged records that are not at the offset where they were acknowledged, in a batch of their epoch.

    In: payloads with ``epoch`` int and ``offset`` bigint; `acknowledged_frame`.
    """
    key = ["run", "claim_epoch", "sequence", "offset"]
    in_place = payloads.where(F.col("epoch") == F.col("claim_epoch")).select(key)
    return acknowledged.join(in_place, on=key, how="left_anti").count()


def count_out_of_order(payloads: DataFrame) -> int:
    """Records whose sequence is not above that of the record before it, within a claim of leadership."""
    before = Window.partitionBy("run", "claim_epoch").orderBy("offset")
    steps = payloads.select("sequence", F.lag("sequence").over(before).alias("previous"))
    return steps.where(F.col("sequence") <= F.col("previous")).count()


def are_identical(prints: DataFrame, *, replicas: int) -> bool:
    """True when so many replicas hold the same records at the same offsets, in batches alike in epoch, size and time.

    In: `fingerprints`. A replica without any record is one that differs.
    """
    by_offset = prints.groupBy("offset").agg(
        F.count("*").alias("copies"),
        F.count_distinct("replica").alias("replicas"),
        F.count_distinct("content").alias("kinds"),
    )
    differs = (F.col("copies") != replicas) | (F.col("replicas") != replicas) | (F.col("kinds") != 1)
    return by_offset.where(differs).isEmpty()


def audit(records: DataFrame, acknowledged: DataFrame, *, replicas: int, until_offset: int) -> Audit:
    """All checks at once. In: the source's rows of so many replicas; `acknowledged_frame`.

    Order, duplicates and gaps are looked for in the most up-to-date replica. The others must equal it up to
    ``until_offset`` (exclusive), where they had all arrived: behind it, one that was stopped first is shorter,
    or holds what was never committed. Committed is what was acknowledged and all before it.
    """
    prints = fingerprints(records).persist()
    promised = acknowledged.persist()
    try:
        ends = prints.groupBy("replica").agg(F.max("epoch").alias("epoch"), F.max("offset").alias("last_offset"))
        furthest = max(((row["epoch"], row["last_offset"], row["replica"]) for row in ends.collect()), default=None)
        log = prints.where(F.col("replica") == (furthest[2] if furthest else ""))
        said = promised.agg(F.count("*"), F.max("offset")).collect()[0]
        is_data = ~F.col("is_control")
        is_committed = is_data & (F.col("offset") <= (-1 if said[1] is None else said[1]))
        found = log.agg(F.count_if(is_data), F.count_if(is_committed), F.count_distinct("epoch")).collect()[0]
        payloads = payload_columns(log)
        return Audit(
            committed_records=found[1],
            acknowledged=said[0],
            spark_rows=found[0],
            duplicates=count_duplicates(payloads),
            missing=count_missing(payloads, promised),
            out_of_order=count_out_of_order(payloads),
            leader_epochs=found[2],
            replicas_identical=are_identical(prints.where(F.col("offset") < until_offset), replicas=replicas),
        )
    finally:
        prints.unpersist()
        promised.unpersist()
