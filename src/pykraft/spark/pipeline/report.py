"""Summarizes the tables as plain values for a report: totals, epochs and throughput.

Invariant: a report depends on the tables alone. Of several replicas it uses the named one, or the one that reaches
furthest.

Source: the gold functions (`pykraft.spark.pipeline.gold`).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

from pykraft.errors import UsageError
from pykraft.spark.pipeline import gold
from pykraft.spark.pipeline.status import TableStatus, pipeline_status
from pykraft.spark.tables import names
from pykraft.spark.tables.delta import DeltaTables

GoldRow = Mapping[str, Any]
GOLD = {"epochs": names.EPOCHS, "throughput": names.THROUGHPUT}
"""The table for each of gold's results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReport:
    """``replica`` is None for a live quorum's log; the rows of ``epochs`` and ``throughput`` are gold's."""

    replica: str | None
    replicas: list[str | None]
    records: int
    control_records: int
    size_bytes: int
    first_offset: int | None
    last_offset: int | None
    corrupt: int
    epochs: list[dict[str, Any]]
    throughput: list[dict[str, Any]]

    def as_json(self) -> dict[str, Any]:
        """As a dict of plain values, times as ISO text."""
        plain = asdict(self)
        for rows in (plain[name] for name in GOLD):
            for row in rows:
                row.update({name: cell.isoformat() for name, cell in row.items() if isinstance(cell, datetime)})
        return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRun:
    """The tables of one run: their report and their sizes, under a name for its panels."""

    name: str
    report: PipelineReport
    tables: dict[str, TableStatus]


def make_report(
    spark: SparkSession,
    tables: DeltaTables,
    *,
    replica: str | None = None,
    every: str = "1 second",
    is_written: bool = False,
) -> PipelineReport:
    """Compute the report; with ``is_written``, also write gold's results as tables, replacing former ones (`GOLD`).

    Errors: UsageError if there are no tables, or no rows of that replica; StorageError if they cannot be written.
    """
    everything = tables.read(spark, names.RECORDS)
    ends = everything.groupBy("replica").agg(F.max("offset").alias("last_offset")).collect()
    known: list[str | None] = sorted((row["replica"] for row in ends), key=lambda name: (name is not None, name))
    if replica is not None and replica not in known:
        raise UsageError(f"{tables.root}: there are no rows of replica {replica}, only of {known}")
    chosen = replica if replica is not None else _furthest({row["replica"]: row["last_offset"] for row in ends})
    records = gold.of_replica(everything, chosen).persist()
    try:
        control = gold.of_replica(tables.read(spark, names.CONTROL), chosen)
        totals = records.agg(
            F.count_if(~F.col("is_control")).alias("records"),
            F.count_if(F.col("is_control")).alias("control_records"),
            F.coalesce(F.sum(F.length("value")), F.lit(0)).alias("size_bytes"),
            F.min("offset").alias("first_offset"),
            F.max("offset").alias("last_offset"),
            F.count("corrupt").alias("corrupt"),
        ).collect()[0]
        found = {"epochs": gold.epochs(records, control), "throughput": gold.throughput(records, every=every)}
        if is_written:
            for name, frame in found.items():
                tables.replace(GOLD[name], frame)
        rows: dict[str, Any] = {name: _rows(frame) for name, frame in found.items()}
        return PipelineReport(replica=chosen, replicas=known, **rows, **totals.asDict())
    finally:
        records.unpersist()


def read_run(
    spark: SparkSession, root: Path | str, *, name: str | None = None, replica: str | None = None
) -> PipelineRun:
    """The run whose tables are in this folder, by default named like the folder.

    Errors: UsageError if there are no tables, or no rows of that replica.
    """
    tables = DeltaTables(root)
    status = pipeline_status(tables.root)
    report = make_report(spark, tables, replica=replica)
    return PipelineRun(name=name or str(root), report=report, tables=status.tables)


def _furthest(ends: dict[str | None, int]) -> str | None:
    return max(ends, key=lambda name: ends[name], default=None)


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]
