"""Gold: summaries of the log: throughput over time, leaders and epochs.

Pure functions of the silver tables. Their input is the log of one replica, or of a live quorum. Rows of several
replicas would count several times: choose one with `of_replica`.

Source: KIP-595 (LeaderChange opens an epoch).
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom


def of_replica(rows: DataFrame, replica: str | None) -> DataFrame:
    """The rows of one replica; None: the rows from a live quorum."""
    return rows.where(F.col("replica").isNull() if replica is None else F.col("replica") == replica)


def throughput(records: DataFrame, *, every: str = "1 second") -> DataFrame:
    """Records and bytes that were appended in each interval; an interval without records has no row.

    In: silver ``records``. Out: ``begin`` timestamp, ``records`` bigint, ``size_bytes`` bigint (of the values),
    ``last_offset`` bigint.
    """
    data = records.where(~F.col("is_control"))
    begin = F.window("timestamp", every)["start"]
    return (
        data.groupBy(begin.alias("begin"))
        .agg(
            F.count("*").alias("records"),
            F.coalesce(F.sum(F.length("value")), F.lit(0)).cast("bigint").alias("size_bytes"),
            F.max("offset").alias("last_offset"),
        )
        .orderBy("begin")
    )


def epochs(records: DataFrame, control: DataFrame) -> DataFrame:
    """The epochs with a leader, and the pause in writes before each.

    In: silver ``records`` and ``control``. Out: ``epoch`` int, ``leader_id`` int, ``first_offset`` bigint (of the
    LeaderChange), ``last_offset`` bigint, ``begun`` timestamp, ``ended`` timestamp (of the last record), ``records``
    bigint (without control records), ``gap_ms`` bigint (from the last record of the epoch before to the first record of
    this one; null for the first epoch and for one without records).
    """
    is_data = ~F.col("is_control")
    spans = records.groupBy("epoch").agg(
        F.max("offset").alias("last_offset"),
        F.max("timestamp").alias("ended"),
        F.count_if(is_data).alias("records"),
        F.min(F.when(is_data, F.col("timestamp"))).alias("first_written"),
    )
    openings = (
        control.where(F.col("control_type") == "LeaderChange")
        .groupBy("epoch")
        .agg(
            F.min_by("leader_id", "offset").alias("leader_id"),
            F.min("offset").alias("first_offset"),
            F.min("timestamp").alias("begun"),
        )
    )
    before = F.lag("ended").over(Window.orderBy("epoch"))
    gap_ms = (F.unix_millis("first_written") - F.unix_millis(before)).alias("gap_ms")
    return (
        openings.join(spans, on="epoch", how="inner")
        .select("epoch", "leader_id", "first_offset", "last_offset", "begun", "ended", "records", gap_ms)
        .orderBy("epoch")
    )
