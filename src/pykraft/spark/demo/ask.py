"""What the demo asks of Spark when the stream has ended: the audit of the tables against log and journal.

Invariant: what Spark raises becomes one line.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pykraft.client.journal import Acknowledged
from pykraft.spark.audit import Audit, acknowledged_frame, audit
from pykraft.spark.demo.failures import failed
from pykraft.spark.pipeline.names import TABLES
from pykraft.spark.tables.table import Tables


def ask_spark(
    spark: SparkSession, tables: Tables, log: Path, said: Iterable[Acknowledged], *, until_offset: int
) -> Audit:
    """Hold the tables against the log in this partition directory, and against what was acknowledged.

    Errors: LocalQuorumError when Spark cannot answer, StorageError when the disk is full.
    """
    try:
        records = spark.read.format("pykraft").load(str(log))
        frames = {name: tables.read(spark, name) for name in TABLES}
        return audit(frames, records, acknowledged_frame(spark, said), until_offset=until_offset)
    except (PySparkException, Py4JError) as error:
        raise failed(tables.root, "Spark", str(error)) from error
