"""Lets Spark check that the tables hold exactly what was acknowledged: plain DataFrame functions.

Records are those of the workload: run id (8 bytes), epoch (int32), sequence (int64), random rest; big-endian. The
journal, which is kept outside of the nodes, says which records were acknowledged at which offsets.

Invariant: no content of a table can make an audit fail; every fault is counted by its kind, and an error of Spark
becomes one line. `pykraft.local.journal` does the same check without Spark, on the bytes of a log.

Source: the definitions of exactly-once checks in Jepsen's set and log tests.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

from lab.demo.live_tables import failed
from pykraft.local.journal import RUN_SIZE_BYTES, Acknowledged
from pykraft.spark.tables.delta import DeltaTables
from pykraft.spark.tables.names import BRONZE, CONTROL, RECORDS

HEAD_SIZE_BYTES = 20
NO_RUN = "00" * RUN_SIZE_BYTES
RANGE_COLUMNS = "run string, epoch int, first_sequence bigint, count bigint, base_offset bigint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The findings below the offset that the tables had to reach. All but the last two fields count records."""

    committed_records: int
    """In the log, without control records."""
    acknowledged: int
    spark_rows: int
    """In the tables, without control records."""
    duplicates: int
    """Rows beyond the first of an offset, and records of the workload at a second offset."""
    missing: int
    """Acknowledged records that are not at their offset in the tables."""
    out_of_order: int
    strays: int
    """Rows of the tables that the log does not have, or has with other content; also control records, and rows above
    that offset.
    """
    leader_epochs: int
    tables_agree: bool
    """All tables were made from the same batches."""


def fingerprints(records: DataFrame) -> DataFrame:
    """What the checks need of each record, small enough to cache, so that the files are read once.

    In: silver ``records``, or the source's. Out: ``offset`` bigint, ``epoch`` int, ``is_control`` boolean, ``value``
    binary (its first 20 bytes), ``content`` bigint (a hash of the record and of its batch's metadata).
    """
    content = F.xxhash64("epoch", "batch_size", "timestamp", "is_control", "key", "value")
    value = F.substring("value", 1, HEAD_SIZE_BYTES)
    return records.select("offset", "epoch", "is_control", value.alias("value"), content.alias("content"))


def payload_columns(records: DataFrame) -> DataFrame:
    """The records of the workload, with the fields that it wrote into them.

    In: ``is_control`` boolean, ``value`` binary; other columns are kept. Out: the same plus ``run`` string (hex),
    ``claim_epoch`` int, ``sequence`` bigint. Control records and foreign records are dropped: values that are too
    short, that start with a run of zeros (Kafka's TestRaftServer writes these), or whose number no leader can have
    assigned.
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
    """The acknowledgements of the journal, one row per record.

    Out: ``run`` string, ``claim_epoch`` int, ``sequence`` bigint, ``offset`` bigint.
    """
    rows = [
        (ack.run.hex(), int(ack.epoch), ack.first_sequence, ack.count, int(ack.base_offset)) for ack in acknowledged
    ]
    ranges = spark.createDataFrame(rows, RANGE_COLUMNS)
    step = F.explode(F.sequence(F.lit(0).cast("bigint"), F.col("count") - 1))
    return ranges.select("run", "epoch", "first_sequence", "base_offset", step.alias("step")).select(
        "run",
        F.col("epoch").alias("claim_epoch"),
        (F.col("first_sequence") + F.col("step")).alias("sequence"),
        (F.col("base_offset") + F.col("step")).alias("offset"),
    )


def count_moved(payloads: DataFrame) -> int:
    """Count the offsets beyond the first at which a record of the workload stands.

    In: payloads with ``offset`` bigint.
    """
    places = payloads.groupBy("run", "claim_epoch", "sequence").agg(F.count_distinct("offset").alias("places"))
    total = places.agg(F.sum(F.col("places") - 1)).collect()[0][0]
    return 0 if total is None else int(total)


def count_missing(payloads: DataFrame, acknowledged: DataFrame) -> int:
    """Count acknowledged records that are not at their acknowledged offset in a batch of their epoch.

    In: payloads with ``epoch`` int and ``offset`` bigint; `acknowledged_frame`.
    """
    key = ["run", "claim_epoch", "sequence", "offset"]
    in_place = payloads.where(F.col("epoch") == F.col("claim_epoch")).select(key)
    return acknowledged.join(in_place, on=key, how="left_anti").count()


def count_out_of_order(payloads: DataFrame) -> int:
    """Count records whose sequence is not above that of the record before, within a leader's claim."""
    before = Window.partitionBy("run", "claim_epoch").orderBy("offset", "sequence")
    once = payloads.select("run", "claim_epoch", "sequence", "offset").distinct()
    steps = once.select("sequence", F.lag("sequence").over(before).alias("previous"))
    return steps.where(F.col("sequence") <= F.col("previous")).count()


def count_strays(rows: DataFrame, log: DataFrame) -> int:
    """Count rows that the log lacks, or has with other content. In: both `fingerprints`."""
    key = ["offset", "content"]
    return rows.join(log.select(key).distinct(), on=key, how="left_anti").count()


def do_tables_agree(rows: DataFrame, bronze: DataFrame, control: DataFrame) -> bool:
    """Whether all three tables hold the same records. In: `fingerprints` of silver ``records``; the other tables."""
    is_control = F.col("is_control")
    total, control_total, control_sum = rows.agg(
        F.count("*"), F.count_if(is_control), F.sum(F.when(is_control, F.col("offset")))
    ).collect()[0]
    in_bronze = bronze.agg(F.sum("records_count")).collect()[0][0] or 0
    # Their count, and a sum that differs for other offsets.
    found = tuple(control.agg(F.count("*"), F.sum("offset")).collect()[0])
    return in_bronze == total and found == (control_total, control_sum)


def audit(tables: Mapping[str, DataFrame], log: DataFrame, acknowledged: DataFrame, *, until_offset: int) -> Audit:
    """Run all checks.

    In: the pipeline's tables by name, of one quorum; the source's rows of a complete replica; `acknowledged_frame`,
    below ``until_offset`` (exclusive), which the tables had to reach.
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
            tables_agree=do_tables_agree(rows, tables[BRONZE], tables[CONTROL]),
        )
    finally:
        for frame in (rows, prints, promised):
            frame.unpersist()


def ask_spark(
    spark: SparkSession, tables: DeltaTables, log: Path, said: Iterable[Acknowledged], *, until_offset: int
) -> Audit:
    """Compare the tables with the log in this partition directory and with the acknowledgements.

    Errors: LocalQuorumError if Spark cannot answer, StorageError if the disk is full.
    """
    try:
        records = spark.read.format("pykraft").load(str(log))
        frames = {name: tables.read(spark, name) for name in (BRONZE, CONTROL, RECORDS)}
        return audit(frames, records, acknowledged_frame(spark, said), until_offset=until_offset)
    except (PySparkException, Py4JError) as error:
        raise failed(tables.root, "Spark", str(error)) from error
