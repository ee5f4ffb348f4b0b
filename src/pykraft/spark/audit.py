"""Do the tables hold what was acknowledged, and nothing else? Plain DataFrame functions, the same on any Spark.

Records are those of the workload: run id (8 bytes), epoch (int32), sequence (int64), random rest; big-endian. The
journal says which of them were acknowledged at which offsets; it was kept outside of the nodes.

Invariant: nothing that a table can hold stops an audit; what is not as it must be is counted, each fault as what it is.
`client.journal_check` asks the same without Spark, of the bytes of a log.

Source: the definitions of exactly-once checks in Jepsen's set and log tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from pykraft.client.journal import RUN_SIZE_BYTES, Acknowledged
from pykraft.spark.pipeline.names import BRONZE, CONTROL, PAYLOADS, RECORDS

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
    """What was found below the offset up to which the tables were to go. All but the last two are counts of records."""

    committed_records: int
    """In the log, without control records."""
    acknowledged: int
    spark_rows: int
    """In the tables, without control records."""
    duplicates: int
    """Rows beyond the first of an offset, and records of the workload that stand at a second offset."""
    missing: int
    """Acknowledged, but not at that offset of the tables."""
    out_of_order: int
    strays: int
    """In the tables, but not so in the log; control records, and what is behind that offset, too."""
    leader_epochs: int
    tables_agree: bool
    """All tables were made of the same batches."""


def fingerprints(records: DataFrame) -> DataFrame:
    """What the checks need of each record, small enough to be kept: they then read the files once.

    In: silver ``records``, or the source's. Out: ``offset`` bigint, ``epoch`` int, ``is_control`` boolean, ``value``
    binary (its first 20 bytes), ``content`` bigint (a hash of the record and of what its batch says of it).
    """
    content = F.xxhash64("epoch", "batch_size", "timestamp", "is_control", "key", "value")
    value = F.substring("value", 1, HEAD_SIZE_BYTES)
    return records.select("offset", "epoch", "is_control", value.alias("value"), content.alias("content"))


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


def count_moved(payloads: DataFrame) -> int:
    """Places beyond the first at which a record of the workload stands.

    In: payloads with ``offset`` bigint.
    """
    places = payloads.groupBy("run", "claim_epoch", "sequence").agg(F.count_distinct("offset").alias("places"))
    total = places.agg(F.sum(F.col("places") - 1)).collect()[0][0]
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
    before = Window.partitionBy("run", "claim_epoch").orderBy("offset", "sequence")
    once = payloads.select("run", "claim_epoch", "sequence", "offset").distinct()
    steps = once.select("sequence", F.lag("sequence").over(before).alias("previous"))
    return steps.where(F.col("sequence") <= F.col("previous")).count()


def count_strays(rows: DataFrame, log: DataFrame) -> int:
    """Rows for which the log has nothing, or something else. In: both `fingerprints`."""
    key = ["offset", "content"]
    return rows.join(log.select(key).distinct(), on=key, how="left_anti").count()


def do_tables_agree(rows: DataFrame, bronze: DataFrame, control: DataFrame, payloads: DataFrame) -> bool:
    """True when all four tables hold the same records. In: `fingerprints` of silver ``records``; the other tables."""
    is_control = F.col("is_control")
    total, control_total, control_sum = rows.agg(
        F.count("*"), F.count_if(is_control), F.sum(F.when(is_control, F.col("offset")))
    ).collect()[0]
    in_bronze = bronze.agg(F.sum("records_count")).collect()[0][0] or 0
    return (
        in_bronze == total
        and _offsets(control) == (control_total, control_sum)
        and _offsets(payloads) == _offsets(payload_columns(rows))
    )


def _offsets(rows: DataFrame) -> tuple[int, int | None]:
    """How many, and a sum that differs when they are others."""
    count, total = rows.agg(F.count("*"), F.sum("offset")).collect()[0]
    return count, total


def audit(tables: Mapping[str, DataFrame], log: DataFrame, acknowledged: DataFrame, *, until_offset: int) -> Audit:
    """All checks at once.

    In: the pipeline's tables by name, of one quorum; the source's rows of a replica that has everything;
    `acknowledged_frame`, below ``until_offset`` (exclusive), up to which the tables were to go.
    """
    rows = fingerprints(tables[RECORDS]).persist()
    prints = fingerprints(log).persist()
    promised = acknowledged.persist()
    try:
        is_data = ~F.col("is_control")
        is_below = F.col("offset") < until_offset
        held = rows.where(is_below)
        payloads = payload_columns(held)
        repeated = F.count("*") - F.count_distinct("offset")
        found = held.agg(F.count_if(is_data), F.count_distinct("epoch"), repeated).collect()[0]
        return Audit(
            committed_records=prints.where(is_data & is_below).count(),
            acknowledged=promised.count(),
            spark_rows=found[0],
            duplicates=found[2] + count_moved(payloads),
            missing=count_missing(payloads, promised),
            out_of_order=count_out_of_order(payloads),
            strays=count_strays(rows, prints),
            leader_epochs=found[1],
            tables_agree=do_tables_agree(rows, tables[BRONZE], tables[CONTROL], tables[PAYLOADS]),
        )
    finally:
        for frame in (rows, prints, promised):
            frame.unpersist()
