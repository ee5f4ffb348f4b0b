"""The columns for Spark and for Arrow are the same."""

from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pykraft.spark.data_source.schema import BATCHES, RECORDS, arrow_schema

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("rows", "columns"), [("records", RECORDS), ("batches", BATCHES)])
def test_arrow_s_columns_are_spark_s(rows: str, columns: StructType) -> None:
    assert from_arrow_schema(arrow_schema(rows), prefer_timestamp_ntz=False) == columns
    times = {str(field.type) for field in arrow_schema(rows) if "timestamp" in field.name}
    assert times == {"timestamp[us, tz=UTC]"}
