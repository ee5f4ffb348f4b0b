"""The silver tables as functions from DataFrame to DataFrame, for tests that have no micro-batch."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from pykraft.spark.data_source.selection import RECORDS
from pykraft.spark.pipeline import silver


def silver_records(bronze: DataFrame) -> DataFrame:
    """The records of the source's batches."""

    def decode(groups: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (rows for group in groups for rows in silver.records_in(group))

    return bronze.mapInArrow(decode, RECORDS)


def silver_control(records: DataFrame) -> DataFrame:
    """The quorum's own records among these."""

    def read(groups: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(silver.control_in, groups)

    return records.mapInArrow(read, silver.CONTROL_COLUMNS)
