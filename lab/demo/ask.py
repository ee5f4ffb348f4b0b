"""Lets Spark audit the tables against log and journal after the stream has ended.

Invariant: an error of Spark becomes one line.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lab.demo.audit import Audit, acknowledged_frame, audit
from lab.demo.failures import failed
from pykraft.client.journal import Acknowledged
from pykraft.spark.tables.names import BRONZE, CONTROL, RECORDS
from pykraft.spark.tables.table import Tables


def ask_spark(
    spark: SparkSession, tables: Tables, log: Path, said: Iterable[Acknowledged], *, until_offset: int
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
