"""The columns for Spark and for Arrow are the same."""

from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from pykraft.spark.schema import SCHEMA, arrow_schema

pytestmark = pytest.mark.spark


def test_arrow_s_columns_are_spark_s() -> None:
    assert from_arrow_schema(arrow_schema(), prefer_timestamp_ntz=False) == SCHEMA
    assert str(arrow_schema().field("timestamp").type) == "timestamp[us, tz=UTC]"
