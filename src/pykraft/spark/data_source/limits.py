"""Converts the limits of a micro-batch from options to Spark's limit, and from that to numbers.

Spark takes one limit at a time. If both options are given, Spark gets the records; bytes are added when it asks.

Source: PySpark's ``ReadLimit`` (SPARK 4.2); Spark's Kafka source (``maxOffsetsPerTrigger``).
"""

from __future__ import annotations

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from pykraft.spark.data_source.options import SourceOptions


def default_limit(options: SourceOptions) -> ReadLimit:
    """The limit for Spark."""
    if options.records_per_trigger is not None:
        return ReadMaxRows(options.records_per_trigger)
    if options.size_bytes_per_trigger is not None:
        return ReadMaxBytes(options.size_bytes_per_trigger)
    return ReadAllAvailable()


def records_and_bytes(limit: ReadLimit, options: SourceOptions) -> tuple[int | None, int | None]:
    """Most records and bytes of a micro-batch under Spark's limit; None for no limit."""
    match limit:
        case ReadMaxRows():
            return limit.max_rows, options.size_bytes_per_trigger
        case ReadMaxBytes():
            return None, limit.max_bytes
        case _:
            return None, None
