"""Lets Spark audit the tables against log and journal after the stream has ended.

Invariant: an error of Spark becomes one line.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pykraft.client.journal import Acknowledged
from pykraft.spark.demo.failures import failed
from pykraft.spark.demo.payloads import Audit, acknowledged_frame, audit
from pykraft.spark.tables.delta import DeltaTables
from pykraft.spark.tables.names import TABLES


def ask_spark(
    spark: SparkSession, tables: DeltaTables, log: Path, said: Iterable[Acknowledged], *, until_offset: int
) -> Audit:
    """Compare the tables with the log in this partition directory and with the acknowledgements.

    Errors: LocalQuorumError if Spark cannot answer, StorageError if the disk is full.
    """
    try:
        records = spark.read.format("pykraft").load(str(log))
        frames = {name: tables.read(spark, name) for name in TABLES}
        return audit(frames, records, acknowledged_frame(spark, said), until_offset=until_offset)
    except (PySparkException, Py4JError) as error:
        raise failed(tables.root, "Spark", str(error)) from error
